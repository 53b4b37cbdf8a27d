#include "gateway/tokenizer/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gateway/tokenizer/utf8.h"
#include "tests/gateway/tokenizer/golden_vocabulary.h"
#include "tests/gateway/tokenizer/small_tokenizer.h"
#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr auto kRefused = absl::StatusCode::kInvalidArgument;

std::vector<int32_t> Encode(const Tokenizer& tokenizer, absl::string_view text,
                            bool match_added = true) {
  const auto ids = tokenizer.Encode(text, match_added);
  EXPECT_OK(ids);
  return ids.ok() ? *ids : std::vector<int32_t>{};
}

std::unique_ptr<Tokenizer> MakeTokenizer(const json& file) {
  const std::string text = file.dump();
  TokenizerText source;
  source.tokenizer_json = text;
  auto tables = ParseTokenizerTables(source);
  EXPECT_OK(tables);
  auto tokenizer = Tokenizer::Create(*std::move(tables));
  EXPECT_OK(tokenizer);
  return *std::move(tokenizer);
}

// ---- The reference's ids ----

// Strings with characters younger than the Unicode 9 of the reference's NFC.
const std::set<std::string>& YoungerThanTheReference() {
  static const std::set<std::string> texts = {"\U00011935\U00011930",
                                              "a\U0001E08F\u0323"};
  return texts;
}

void ExpectGoldenIds(const Tokenizer& tokenizer, const std::string& key) {
  for (const auto& line : GoldenLines("ids.jsonl")) {
    const std::string text = line["text"];
    const std::vector<int32_t> wanted = line[key];
    EXPECT_EQ(Encode(tokenizer, text) != wanted,
              YoungerThanTheReference().contains(text))
        << text;
  }
}

TEST(TokenizerGolden, Qwen3IdsAreTheReferencesButForTwoStrings) {
  ExpectGoldenIds(Qwen3(), "ids_qwen3");
}

TEST(TokenizerGolden, Qwen35IdsAreTheReferencesButForTwoStrings) {
  ExpectGoldenIds(Qwen35(), "ids_qwen35");
}

TEST(TokenizerGolden, AllIdsDecodeAsTheReferencesDo) {
  for (const auto& line : GoldenLines("ids.jsonl")) {
    const std::vector<int32_t> ids = line["ids_qwen35"];
    EXPECT_EQ(Qwen35().Decode(ids, false), line["decoded"]);
    EXPECT_EQ(Qwen35().Decode(ids, true), line["decoded_skip_special"]);
  }
}

// ---- The model that comes with the repository ----

class PhalanxMini : public testing::Test {
 protected:
  static constexpr char kFolder[] = SOURCE_ROOT "/deploy/models/phalanx-mini";

  void SetUp() override {
    auto tokenizer = Tokenizer::Load(kFolder);
    ASSERT_OK(tokenizer);
    tokenizer_ = *std::move(tokenizer);
    std::ifstream file(std::string(kFolder) + "/answers.json");
    answers_ = json::parse(file);
    ASSERT_FALSE(answers_.empty());
  }

  std::unique_ptr<Tokenizer> tokenizer_;
  json answers_;
};

TEST_F(PhalanxMini, PromptsBecomeTheReferencesIds) {
  for (const json& answer : answers_) {
    EXPECT_EQ(Encode(*tokenizer_, answer["prompt"].get<std::string>()),
              answer["prompt_ids"].get<std::vector<int32_t>>())
        << answer["name"];
  }
}

TEST_F(PhalanxMini, ContinuationsBecomeTheReferencesText) {
  for (const json& answer : answers_) {
    EXPECT_EQ(
        tokenizer_->Decode(answer["greedy_f32"].get<std::vector<int32_t>>(),
                           /*skip_special=*/true),
        answer["text"].get<std::string>())
        << answer["name"];
  }
}

TEST_F(PhalanxMini, KnowsItsTurnMarkersByContent) {
  EXPECT_EQ(tokenizer_->AddedTokenId("<|im_end|>"), 898);
  EXPECT_EQ(tokenizer_->AddedTokenId("</think>"), 904);
  EXPECT_EQ(tokenizer_->AddedTokenId("<|im_end"), std::nullopt);
  EXPECT_TRUE(tokenizer_->is_special(898));
  EXPECT_FALSE(tokenizer_->is_special(904));
  EXPECT_TRUE(tokenizer_->is_added(904));
  EXPECT_FALSE(tokenizer_->is_added(301));
  EXPECT_EQ(tokenizer_->vocab_size(), 905);
}

// ---- Behaviour, on a vocabulary small enough to see through ----

class SmallTokenizer : public testing::Test {
 protected:
  std::unique_ptr<Tokenizer> tokenizer_ = MakeTokenizer(SmallTokenizerJson());
};

TEST_F(SmallTokenizer, MergesAsFarAsItsRulesGo) {
  EXPECT_THAT(Encode(*tokenizer_, "hello hex"), ElementsAre(259, 260, 'x'));
}

TEST_F(SmallTokenizer, EmptyTextHasNoIds) {
  EXPECT_THAT(Encode(*tokenizer_, ""), ElementsAre());
}

TEST_F(SmallTokenizer, AddedTokensAreTakenOutOfRawText) {
  EXPECT_THAT(Encode(*tokenizer_, "he<think>he<|end|><|end|>"),
              ElementsAre(256, 262, 256, 261, 261));
}

TEST_F(SmallTokenizer, WithoutMatchingAddedTokensTheirLettersAreText) {
  for (const int32_t id : Encode(*tokenizer_, "he<think><|end|>", false)) {
    EXPECT_FALSE(tokenizer_->is_added(id));
  }
}

TEST_F(SmallTokenizer, AnAddedTokenKeepsAnAccentAfterItApart) {
  // In NFC, ">" and U+0338 are one character: matching comes first.
  EXPECT_THAT(Encode(*tokenizer_, "<think>\u0338"),
              ElementsAre(262, 0xCC, 0xB8));
}

TEST_F(SmallTokenizer, TextIsBroughtIntoNfc) {
  EXPECT_THAT(Encode(*tokenizer_, "e\u0301"), ElementsAre(0xC3, 0xA9));
}

TEST_F(SmallTokenizer, WithoutANormalizerTextStaysAsItIs) {
  json file = SmallTokenizerJson();
  file["normalizer"] = nullptr;
  EXPECT_THAT(Encode(*MakeTokenizer(file), "e\u0301"),
              ElementsAre('e', 0xCC, 0x81));
}

TEST_F(SmallTokenizer, NulIsACharacterLikeAnyOther) {
  EXPECT_THAT(Encode(*tokenizer_, absl::string_view("a\0b", 3)),
              ElementsAre('a', 0, 'b'));
}

TEST_F(SmallTokenizer, RefusesInvalidUtf8WithItsByte) {
  EXPECT_THAT(tokenizer_->Encode("he\xE4\xBD"),
              StatusIs(kRefused, "the text is not valid UTF-8 at byte 2"));
}

TEST_F(SmallTokenizer, RefusesTextAboveItsBound) {
  EXPECT_THAT(
      tokenizer_->Encode(std::string(kMaxTextBytes + 1, 'a')),
      StatusIs(kRefused, "the text has 8388609 bytes; at most 8388608"));
}

TEST_F(SmallTokenizer, APatternThatRunsAwayIsAnErrorOfTheCall) {
  json file = SmallTokenizerJson();
  file["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] =
      "(?:a|a|b?)+[cd]";
  EXPECT_THAT(MakeTokenizer(file)->Encode(std::string(200, 'a')),
              StatusIs(kRefused, HasSubstr("split pattern stops at byte 0")));
}

TEST_F(SmallTokenizer, RefusesAPatternThatDoesNotCompile) {
  json file = SmallTokenizerJson();
  file["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "[";
  const std::string text = file.dump();
  TokenizerText source;
  source.tokenizer_json = text;
  auto tables = ParseTokenizerTables(source);
  ASSERT_OK(tables);
  EXPECT_THAT(Tokenizer::Create(*std::move(tables)),
              StatusIs(kRefused, HasSubstr("Regex")));
}

TEST_F(SmallTokenizer, BytesOfATokenAreItsBytes) {
  EXPECT_EQ(tokenizer_->TokenBytes(260), " he");
  EXPECT_EQ(tokenizer_->TokenBytes(0xFF), "\xFF");
  EXPECT_EQ(tokenizer_->TokenBytes(261), "<|end|>");
}

TEST_F(SmallTokenizer, AnIdThatNoTokenHasGivesNothing) {
  for (const int32_t id : {-1, 263, 1 << 30, INT32_MIN, INT32_MAX}) {
    EXPECT_EQ(tokenizer_->TokenBytes(id), "");
    EXPECT_FALSE(tokenizer_->is_added(id));
    EXPECT_EQ(tokenizer_->Decode(std::vector<int32_t>{id}, false), "");
  }
}

TEST_F(SmallTokenizer, SpecialTokensAreLeftOutOfTextOnlyWhenAsked) {
  const std::vector<int32_t> ids = {262, 259, 261};
  EXPECT_EQ(tokenizer_->Decode(ids, false), "<think>hello<|end|>");
  EXPECT_EQ(tokenizer_->Decode(ids, true), "<think>hello");
}

TEST(TokenizerLoad, NamesTheMissingFile) {
  EXPECT_THAT(Tokenizer::Load("/nonexistent"),
              StatusIs(absl::StatusCode::kNotFound,
                       "/nonexistent/tokenizer.json: no such file"));
}

// ---- Anything at all ----

TEST(TokenizerFuzz, RandomBytesAreRefusedOrComeBackTheSame) {
  std::mt19937 random(11);
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (size_t size = random() % 40; text.size() < size;) {
      text += static_cast<char>(random() % (round % 2 == 0 ? 256 : 128));
    }
    const auto ids = Qwen35().Encode(text);
    const bool valid = ValidUtf8Size(text) == text.size();
    ASSERT_EQ(ids.ok(), valid);
    if (!valid) continue;
    // Composed already where it is ASCII.
    if (round % 2 == 1) {
      ASSERT_EQ(Qwen35().Decode(*ids, false), text);
    }
  }
}

TEST(TokenizerFuzz, RandomIdsDecodeToValidText) {
  std::mt19937 random(12);
  std::vector<int32_t> ids(20000);
  for (int32_t& id : ids) id = static_cast<int32_t>(random() % 160000) - 1000;
  const std::string text = Qwen35().Decode(ids, false);
  EXPECT_EQ(ValidUtf8Size(text), text.size());
}

TEST(TokenizerFuzz, AMegabyteOfOneLetterIsEncodedWholly) {
  const std::string text(1 << 20, 'a');
  EXPECT_TRUE(Qwen35().Decode(Encode(Qwen35(), text), false) == text);
}

TEST(TokenizerFuzz, AMegabyteOfAlmostAddedTokensIsEncodedWholly) {
  std::string text;
  while (text.size() < (1 << 20)) text += "<|im_";
  EXPECT_TRUE(Qwen35().Decode(Encode(Qwen35(), text), false) == text);
}

TEST(TokenizerFuzz, ALongRunOfAnyOneThingIsEncodedWholly) {
  for (const char* unit : {" ", "\n", "!", "7", "\u00E9", "\u4F60", "\u3000",
                           "\u0301", "<|im_end|>", " \n", "\u0430\u0301"}) {
    std::string text;
    while (text.size() < (1 << 16)) text += unit;
    EXPECT_TRUE(Qwen35().Decode(Encode(Qwen35(), text), false) == text) << unit;
  }
}

TEST(TokenizerFuzz, ALongRunOfAccentsToComposeIsComposed) {
  std::string text;
  std::string composed;
  for (int i = 0; i < 1 << 16; ++i) {
    text += "a\u0301";
    composed += "\u00E1";
  }
  EXPECT_TRUE(Qwen35().Decode(Encode(Qwen35(), text), false) == composed);
}

TEST(TokenizerThreads, ManyThreadsEncodeAtOnceAndAgree) {
  const std::string text = "The quick brown fox, na\u00EFvely: 12345<think>\n";
  const std::vector<int32_t> wanted = Encode(Qwen35(), text);
  std::atomic<int> same = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        const auto ids = Qwen35().Encode(text);
        if (ids.ok() && *ids == wanted) ++same;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(same, 200);
}

}  // namespace
}  // namespace phalanx
