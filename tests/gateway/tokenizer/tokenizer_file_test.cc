#include "gateway/tokenizer/tokenizer_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/gateway/tokenizer/small_tokenizer.h"
#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

using absl::StatusCode;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

absl::StatusOr<TokenizerTables> ParseText(const std::string& tokenizer) {
  TokenizerText text;
  text.tokenizer_json = tokenizer;
  return ParseTokenizerTables(text);
}

absl::StatusOr<TokenizerTables> Parse(const json& tokenizer) {
  return ParseText(tokenizer.dump());
}

absl::StatusOr<TokenizerTables> ParseWithConfig(const json& config) {
  const std::string tokenizer_text = SmallTokenizerJson().dump();
  const std::string config_text = config.dump();
  TokenizerText text;
  text.tokenizer_json = tokenizer_text;
  text.config_json = config_text;
  return ParseTokenizerTables(text);
}

json AddedEntry(const std::string& content) {
  return {{"content", content}, {"single_word", false}, {"lstrip", false},
          {"rstrip", false},    {"normalized", false},  {"special", true}};
}

TEST(TokenizerFile, ASoundFileGivesItsTables) {
  const auto tables = Parse(SmallTokenizerJson());
  ASSERT_OK(tables);
  EXPECT_EQ(tables->token_bytes.size(), 263u);
  EXPECT_EQ(tables->token_bytes[260], " he");
  EXPECT_EQ(tables->token_bytes[262], "<think>");
  EXPECT_EQ(tables->merges.size(), 5u);
  EXPECT_EQ(tables->merges[3].result, 259);
  EXPECT_EQ(tables->byte_tokens[0xFF], 0xFF);
  EXPECT_TRUE(tables->added[0].special);
  EXPECT_TRUE(tables->nfc);
}

TEST(TokenizerFile, MergesMayBePairsToo) {
  json file = SmallTokenizerJson();
  file["model"]["merges"][2] = {"he", "ll"};
  const auto tables = Parse(file);
  ASSERT_OK(tables);
  EXPECT_EQ(tables->merges[2].result, 258);
}

TEST(TokenizerFile, WithoutANormalizerTextStaysAsItIs) {
  json file = SmallTokenizerJson();
  file["normalizer"] = nullptr;
  const auto tables = Parse(file);
  ASSERT_OK(tables);
  EXPECT_FALSE(tables->nfc);
}

TEST(TokenizerFile, AnAddedTokenThatTheVocabularyRepeatsIsOneToken) {
  json file = SmallTokenizerJson();
  file["model"]["vocab"]["<think>"] = 262;
  const auto tables = Parse(file);
  ASSERT_OK(tables);
  EXPECT_EQ(tables->token_bytes.size(), 263u);
}

TEST(TokenizerFile, TheConfigAddsItsTokens) {
  const auto tables = ParseWithConfig(
      {{"added_tokens_decoder", {{"300", AddedEntry("<tts_pad>")}}}});
  ASSERT_OK(tables);
  EXPECT_EQ(tables->token_bytes.size(), 301u);
  EXPECT_EQ(tables->token_bytes[300], "<tts_pad>");
}

TEST(TokenizerFile, TheConfigsFlagsAreThoseThatCount) {
  const auto tables = ParseWithConfig(
      {{"added_tokens_decoder", {{"262", AddedEntry("<think>")}}}});
  ASSERT_OK(tables);
  EXPECT_TRUE(tables->added[1].special);
}

// A change to the sound file, and what is said of it.
struct Refusal {
  const char* name;
  const char* pointer;  // RFC 6901, what to replace.
  json value;           // Discarded: the member is removed.
  StatusCode code;
  const char* message;
};

class TokenizerFileRefusal : public testing::TestWithParam<Refusal> {};

TEST_P(TokenizerFileRefusal, NamesFileKeyAndValue) {
  const Refusal& refusal = GetParam();
  json file = SmallTokenizerJson();
  const json::json_pointer pointer(refusal.pointer);
  if (refusal.value.is_discarded()) {
    file[pointer.parent_pointer()].erase(pointer.back());
  } else {
    file[pointer] = refusal.value;
  }
  EXPECT_THAT(Parse(file),
              StatusIs(refusal.code, AllOf(HasSubstr("tokenizer.json: "),
                                           HasSubstr(refusal.message))));
}

const json kRemoved(json::value_t::discarded);
constexpr auto kUnsupported = StatusCode::kInvalidArgument;
constexpr auto kBroken = StatusCode::kDataLoss;

INSTANTIATE_TEST_SUITE_P(
    Settings, TokenizerFileRefusal,
    testing::Values(
        Refusal{"Normalizer", "/normalizer/type", "NFKC", kUnsupported,
                "normalizer.type is \"NFKC\"; only \"NFC\" is supported"},
        Refusal{"PreTokenizer", "/pre_tokenizer/type", "Metaspace",
                kUnsupported, "pre_tokenizer.type is \"Metaspace\""},
        Refusal{"NoPreTokenizer", "/pre_tokenizer", kRemoved, kBroken,
                "the root lacks the key \"pre_tokenizer\""},
        Refusal{"StepCount", "/pre_tokenizer/pretokenizers", json::array(),
                kUnsupported, "pre_tokenizer.pretokenizers has 0 steps"},
        Refusal{"StepType", "/pre_tokenizer/pretokenizers/0/type", "Digits",
                kUnsupported, "pretokenizers[0].type is \"Digits\""},
        Refusal{"Behavior", "/pre_tokenizer/pretokenizers/0/behavior",
                "Removed", kUnsupported, "behavior is \"Removed\""},
        Refusal{"Invert", "/pre_tokenizer/pretokenizers/0/invert", true,
                kUnsupported, "invert is true; only false is supported"},
        Refusal{"PatternKind", "/pre_tokenizer/pretokenizers/0/pattern",
                json{{"String", " "}}, kBroken,
                "pretokenizers[0].pattern lacks the key \"Regex\""},
        Refusal{"PatternType", "/pre_tokenizer/pretokenizers/0/pattern/Regex",
                7, kBroken, "pattern.Regex is 7; must be a string"},
        Refusal{"PrefixSpace",
                "/pre_tokenizer/pretokenizers/1/add_prefix_space", true,
                kUnsupported, "pretokenizers[1].add_prefix_space is true"},
        Refusal{"UseRegex", "/pre_tokenizer/pretokenizers/1/use_regex", true,
                kUnsupported, "pretokenizers[1].use_regex is true"},
        Refusal{"PostProcessor", "/post_processor",
                json{{"type", "TemplateProcessing"}}, kUnsupported,
                "post_processor.type is \"TemplateProcessing\""},
        Refusal{"Decoder", "/decoder/type", "WordPiece", kUnsupported,
                "decoder.type is \"WordPiece\""},
        Refusal{"NoDecoder", "/decoder", nullptr, kBroken,
                "decoder is null; must be an object"},
        Refusal{"Model", "/model/type", "Unigram", kUnsupported,
                "model.type is \"Unigram\"; only \"BPE\" is supported"},
        Refusal{"Dropout", "/model/dropout", 0.1, kUnsupported,
                "model.dropout is 0.1; only null is supported"},
        Refusal{"Prefix", "/model/continuing_subword_prefix", "##",
                kUnsupported, "model.continuing_subword_prefix is \"##\""},
        Refusal{"Suffix", "/model/end_of_word_suffix", "</w>", kUnsupported,
                "model.end_of_word_suffix is \"</w>\""},
        Refusal{"ByteFallback", "/model/byte_fallback", true, kUnsupported,
                "model.byte_fallback is true"},
        Refusal{"IgnoreMerges", "/model/ignore_merges", true, kUnsupported,
                "model.ignore_merges is true"}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Tables, TokenizerFileRefusal,
    testing::Values(
        Refusal{"NoModel", "/model", kRemoved, kBroken,
                "the root lacks the key \"model\""},
        Refusal{"NoVocab", "/model/vocab", kRemoved, kBroken,
                "model lacks the key \"vocab\""},
        Refusal{"VocabType", "/model/vocab", json::array(), kBroken,
                "model.vocab is an array; must be an object"},
        Refusal{"NegativeId", "/model/vocab/he", -1, kBroken,
                "model.vocab.he is -1; must be an id in 0..1048575"},
        Refusal{"LargeId", "/model/vocab/he", 1 << 20, kBroken,
                "model.vocab.he is 1048576; must be an id in 0..1048575"},
        Refusal{"FractionalId", "/model/vocab/he", 2.5, kBroken,
                "model.vocab.he is 2.5"},
        Refusal{"TextId", "/model/vocab/he", "256", kBroken,
                "model.vocab.he is \"256\""},
        Refusal{"SameId", "/model/vocab/he", 257, kBroken,
                "is 257, the id of another token"},
        Refusal{"AddedId", "/model/vocab/he", 262, kBroken,
                "model.vocab.he is 262, the id of an added token"},
        Refusal{"Alphabet", "/model/vocab/\u4F60", 300, kBroken,
                "outside the byte-level alphabet"},
        Refusal{"NoByte", "/model/vocab/A", kRemoved, kBroken,
                "model.vocab has no token for byte 0x41"},
        Refusal{"NoMerges", "/model/merges", kRemoved, kBroken,
                "model lacks the key \"merges\""},
        Refusal{"MergesType", "/model/merges", "h e", kBroken,
                "model.merges is \"h e\"; must be an array"},
        Refusal{"MergeShape", "/model/merges/1", "l", kBroken,
                "model.merges[1] is \"l\"; must be two tokens"},
        Refusal{"MergeOfThree", "/model/merges/1", "l l l", kBroken,
                "model.merges[1] is \"l l l\"; must be two tokens"},
        Refusal{"MergeTypes", "/model/merges/1", json::array({1, 2}), kBroken,
                "model.merges[1] is an array; must be two tokens"},
        Refusal{"MergeOfUnknown", "/model/merges/1", "l zz", kBroken,
                "model.merges[1] names the token \"zz\", which model.vocab"},
        Refusal{"MergeIntoUnknown", "/model/merges/1", "l x", kBroken,
                "model.merges[1] names the token \"lx\", which model.vocab"},
        Refusal{"MergeTwice", "/model/merges/1", "h e", kBroken,
                "model.merges[1] is 104 + 101 in ids, which an earlier"}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    AddedTokens, TokenizerFileRefusal,
    testing::Values(
        Refusal{"ListType", "/added_tokens", 3, kBroken,
                "added_tokens is 3; must be an array"},
        Refusal{"EntryType", "/added_tokens/0", "x", kBroken,
                "added_tokens[0] is \"x\"; must be an object"},
        Refusal{"NoId", "/added_tokens/0/id", kRemoved, kBroken,
                "added_tokens[0] lacks the key \"id\""},
        Refusal{"Id", "/added_tokens/0/id", -5, kBroken,
                "added_tokens[0].id is -5; must be an id in 0..1048575"},
        Refusal{"SameId", "/added_tokens/1/id", 261, kBroken,
                "added_tokens[1].id is 261, the id of an earlier"},
        Refusal{"VocabularyId", "/added_tokens/1/id", 5, kBroken,
                "is 5, the id of an added token"},
        Refusal{"SameContent", "/added_tokens/1/content", "<|end|>", kBroken,
                "has the added token \"<|end|>\" under two ids"},
        Refusal{"VocabularyContent", "/added_tokens/1/content", "hello",
                kBroken,
                "has \"hello\" as added token 262 and as model.vocab's 259"},
        Refusal{"EmptyContent", "/added_tokens/1/content", "", kBroken,
                "added_tokens[1].content has 0 bytes; must be 1..256"},
        Refusal{"LongContent", "/added_tokens/1/content", std::string(257, 'x'),
                kBroken,
                "added_tokens[1].content has 257 bytes; must be 1..256"},
        Refusal{"Lstrip", "/added_tokens/1/lstrip", true, kUnsupported,
                "added_tokens[1].lstrip is true; only false"},
        Refusal{"Rstrip", "/added_tokens/1/rstrip", true, kUnsupported,
                "added_tokens[1].rstrip is true; only false"},
        Refusal{"SingleWord", "/added_tokens/1/single_word", true, kUnsupported,
                "added_tokens[1].single_word is true"},
        Refusal{"Normalized", "/added_tokens/1/normalized", true, kUnsupported,
                "added_tokens[1].normalized is true"},
        Refusal{"NoSpecial", "/added_tokens/1/special", kRemoved, kBroken,
                "added_tokens[1] lacks the key \"special\""},
        Refusal{"SpecialType", "/added_tokens/1/special", 1, kBroken,
                "added_tokens[1].special is 1; must be true or false"}),
    [](const auto& info) { return info.param.name; });

TEST(TokenizerFile, RefusesMoreAddedTokensThanItsBound) {
  json decoder = json::object();
  for (size_t i = 0; i <= kMaxAddedTokens; ++i) {
    decoder[std::to_string(300 + i)] = AddedEntry("<" + std::to_string(i));
  }
  EXPECT_THAT(ParseWithConfig({{"added_tokens_decoder", decoder}}),
              StatusIs(kBroken, HasSubstr("4099 added tokens; at most 4096")));
}

TEST(TokenizerFile, RefusesAnIdOfTheConfigThatIsNoNumber) {
  EXPECT_THAT(
      ParseWithConfig({{"added_tokens_decoder", {{"x1", AddedEntry("<a>")}}}}),
      StatusIs(kBroken,
               HasSubstr("tokenizer_config.json: added_tokens_decoder has the "
                         "key \"x1\"; must be an id in 0..1048575")));
}

TEST(TokenizerFile, RefusesOneIdUnderTwoNumeralsOfTheConfig) {
  EXPECT_THAT(
      ParseWithConfig(
          {{"added_tokens_decoder",
            {{"300", AddedEntry("<a>")}, {"0300", AddedEntry("<b>")}}}}),
      StatusIs(kBroken, HasSubstr("added_tokens_decoder has id 300 twice")));
}

TEST(TokenizerFile, RefusesFilesThatDisagreeOnAnId) {
  EXPECT_THAT(
      ParseWithConfig({{"added_tokens_decoder", {{"262", AddedEntry("<b>")}}}}),
      StatusIs(kBroken, HasSubstr("added_tokens_decoder.262 is \"<b>\", but "
                                  "tokenizer.json has that id")));
}

TEST(TokenizerFile, RefusesAConfigThatPutsATokenBeforeTheText) {
  EXPECT_THAT(ParseWithConfig({{"add_bos_token", true}}),
              StatusIs(kUnsupported, HasSubstr("add_bos_token is true")));
}

TEST(TokenizerFile, RefusesAConfigThatIsEmpty) {
  const std::string tokenizer = SmallTokenizerJson().dump();
  TokenizerText text;
  text.tokenizer_json = tokenizer;
  text.config_json = "";
  EXPECT_THAT(ParseTokenizerTables(text),
              StatusIs(kBroken, HasSubstr("tokenizer_config.json: not valid")));
}

TEST(TokenizerFile, RefusesWhatIsNoJsonWithTheByte) {
  EXPECT_THAT(ParseText("{\"model\": }"),
              StatusIs(kBroken, "tokenizer.json: not valid JSON at byte 11"));
}

TEST(TokenizerFile, RefusesInvalidUtf8) {
  std::string text = SmallTokenizerJson().dump();
  text.insert(text.find("<think>"), "\xFF");
  EXPECT_THAT(ParseText(text),
              StatusIs(kBroken, HasSubstr("not valid JSON at byte")));
}

TEST(TokenizerFile, RefusesANumberThatNoDoubleHolds) {
  EXPECT_THAT(ParseText("{\"model\": 1e999}"),
              StatusIs(kBroken, HasSubstr("not valid JSON")));
}

TEST(TokenizerFile, RefusesARootThatIsNoObject) {
  EXPECT_THAT(ParseText("[]"),
              StatusIs(kBroken, HasSubstr("the root is an array")));
}

TEST(TokenizerFile, RefusesDeepNesting) {
  const std::string deep(100000, '[');
  EXPECT_THAT(ParseText(deep + std::string(100000, ']')),
              StatusIs(kBroken, HasSubstr("nested deeper than 32 levels")));
}

TEST(TokenizerFile, RefusesMoreValuesThanItsBound) {
  std::string text = "[0";
  for (size_t i = 0; i < kMaxTokenizerJsonValues; ++i) text += ",0";
  EXPECT_THAT(ParseText(text + "]"),
              StatusIs(kBroken, HasSubstr("values; at most 2097152")));
}

TEST(TokenizerFile, AMessageStaysShortWhateverTheKey) {
  json file = SmallTokenizerJson();
  file["model"]["vocab"][std::string(100000, 'k')] = -1;
  const auto tables = Parse(file);
  ASSERT_FALSE(tables.ok());
  EXPECT_LT(tables.status().message().size(), 400u);
}

TEST(TokenizerFile, EveryCutOfASoundFileIsRefused) {
  const std::string text = SmallTokenizerJson().dump();
  for (size_t size = 0; size < text.size(); size += 7) {
    EXPECT_FALSE(ParseText(text.substr(0, size)).ok()) << size;
  }
}

// ---- Files ----

class TokenizerFolder : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "tokenizer_file_test." +
              testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << text;
  }

  std::string folder_;
};

TEST_F(TokenizerFolder, WithoutTheFileIsNotFound) {
  EXPECT_THAT(ReadTokenizerTables(folder_),
              StatusIs(StatusCode::kNotFound,
                       HasSubstr(folder_ + "/tokenizer.json: no such file")));
}

TEST_F(TokenizerFolder, NeedsNoConfig) {
  Write("tokenizer.json", SmallTokenizerJson().dump());
  EXPECT_OK(ReadTokenizerTables(folder_));
}

TEST_F(TokenizerFolder, ABrokenConfigIsNamedByItsPath) {
  Write("tokenizer.json", SmallTokenizerJson().dump());
  Write("tokenizer_config.json", "{");
  EXPECT_THAT(ReadTokenizerTables(folder_),
              StatusIs(kBroken, HasSubstr(folder_ + "/tokenizer_config.json")));
}

TEST_F(TokenizerFolder, AFolderInTheFilesPlaceIsRefused) {
  std::filesystem::create_directories(folder_ + "/tokenizer.json");
  EXPECT_THAT(ReadTokenizerTables(folder_),
              StatusIs(kUnsupported, HasSubstr("not a readable regular file")));
}

TEST_F(TokenizerFolder, AFileAboveTheBoundIsRefusedUnread) {
  Write("tokenizer.json", "");
  std::filesystem::resize_file(folder_ + "/tokenizer.json",
                               kMaxTokenizerFileBytes + 1);
  EXPECT_THAT(ReadTokenizerTables(folder_),
              StatusIs(kBroken, HasSubstr("67108865 bytes; at most 67108864")));
}

}  // namespace
}  // namespace phalanx
