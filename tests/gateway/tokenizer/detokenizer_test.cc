#include "gateway/tokenizer/detokenizer.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gateway/tokenizer/utf8.h"
#include "tests/gateway/tokenizer/golden_vocabulary.h"
#include "tests/gateway/tokenizer/small_tokenizer.h"
#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

// Bytes ED A0 open a surrogate, so they are hopeless at once; the reference
// waits for a third byte before it says so.
const std::vector<int32_t> kSurrogate = {169, 254, 222};

TEST(DetokenizerGolden, EachTokenReleasesWhatTheReferenceReleases) {
  for (const auto& line : GoldenLines("stream.jsonl")) {
    IncrementalDetokenizer detokenizer(Qwen3(), line["skip_special"]);
    std::vector<std::string> pieces;
    for (const int32_t id : line["ids"]) pieces.push_back(detokenizer.Push(id));
    EXPECT_EQ(pieces != line["pieces"].get<std::vector<std::string>>(),
              line["ids"] == kSurrogate)
        << line["ids"];
    EXPECT_EQ(detokenizer.Flush(), line["flush"]);
  }
}

TEST(DetokenizerGolden, TheWholeTextIsThatOfTheReference) {
  for (const auto& line : GoldenLines("stream.jsonl")) {
    EXPECT_EQ(Qwen3().Decode(line["ids"].get<std::vector<int32_t>>(),
                             line["skip_special"]),
              line["whole"]);
  }
}

// Ids 0..255 are the bytes; 261 is special, 262 added.
class Detokenizer : public testing::Test {
 protected:
  static std::unique_ptr<Tokenizer> Make() {
    const std::string text = SmallTokenizerJson().dump();
    TokenizerText source;
    source.tokenizer_json = text;
    auto tables = ParseTokenizerTables(source);
    EXPECT_OK(tables);
    return *Tokenizer::Create(*std::move(tables));
  }

  const std::unique_ptr<Tokenizer> tokenizer_ = Make();
};

TEST_F(Detokenizer, HoldsACodePointUntilItsLastByte) {
  IncrementalDetokenizer detokenizer(*tokenizer_, false);
  EXPECT_EQ(detokenizer.Push(0xE4), "");
  EXPECT_EQ(detokenizer.Push(0xBD), "");
  EXPECT_EQ(detokenizer.Push(0xA0), "\u4F60");
}

TEST_F(Detokenizer, AnAddedTokenEndsWhatWasWaiting) {
  IncrementalDetokenizer detokenizer(*tokenizer_, false);
  detokenizer.Push(0xE4);
  EXPECT_EQ(detokenizer.Push(262), "\uFFFD<think>");
}

TEST_F(Detokenizer, ASkippedTokenEndsNothing) {
  IncrementalDetokenizer detokenizer(*tokenizer_, true);
  detokenizer.Push(0xC3);
  EXPECT_EQ(detokenizer.Push(261), "");
  EXPECT_EQ(detokenizer.Push(0xA9), "\u00E9");
}

TEST_F(Detokenizer, AnUnknownIdChangesNothing) {
  IncrementalDetokenizer detokenizer(*tokenizer_, false);
  detokenizer.Push(0xC3);
  EXPECT_EQ(detokenizer.Push(-1), "");
  EXPECT_EQ(detokenizer.Push(1 << 30), "");
  EXPECT_EQ(detokenizer.Push(0xA9), "\u00E9");
}

TEST_F(Detokenizer, FlushReleasesTheRestOnce) {
  IncrementalDetokenizer detokenizer(*tokenizer_, false);
  detokenizer.Push(0xF0);
  detokenizer.Push(0x9F);
  EXPECT_EQ(detokenizer.Flush(), "\uFFFD");
  EXPECT_EQ(detokenizer.Flush(), "");
}

TEST_F(Detokenizer, AfterAFlushItStartsAnew) {
  IncrementalDetokenizer detokenizer(*tokenizer_, false);
  detokenizer.Push(0xC3);
  detokenizer.Flush();
  EXPECT_EQ(detokenizer.Push(0xA9), "\uFFFD");
}

// The same bytes as single-byte tokens and as the longer tokens of an encoding:
// two ways of cutting one text, released alike in all.
TEST_F(Detokenizer, TheTextDoesNotDependOnHowItsBytesAreCutIntoTokens) {
  for (const auto& line : GoldenLines("ids.jsonl")) {
    const std::string text = line["decoded"];
    IncrementalDetokenizer bytes(*tokenizer_, false);
    std::string released;
    for (const char byte : text) {
      const std::string piece = bytes.Push(static_cast<uint8_t>(byte));
      ASSERT_EQ(ValidUtf8Size(piece), piece.size());
      released += piece;
    }
    EXPECT_EQ(released + bytes.Flush(), text);
  }
}

// One U+FFFD per maximal invalid prefix of the whole string, found by looking
// at the whole string.
std::string Replaced(absl::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const Utf8Unit unit = FirstUtf8Unit(bytes);
    text +=
        std::string(unit.kind == Utf8Kind::kWhole ? bytes.substr(0, unit.size)
                                                  : kReplacement);
    bytes.remove_prefix(unit.size);
  }
  return text;
}

TEST_F(Detokenizer, RandomBytesGiveTheTextOfTheWholeAtEveryCut) {
  std::mt19937 random(9);
  // Bytes that open, continue and break code points.
  const std::string alphabet =
      "a\x80\xA0\xBD\xC3\xE0\xE4\xED\xF0\xF4\x9F\x98\xFF";
  for (int round = 0; round < 2000; ++round) {
    std::string bytes;
    IncrementalDetokenizer detokenizer(*tokenizer_, false);
    std::string released;
    for (int i = 0; i < 24; ++i) {
      bytes += alphabet[random() % alphabet.size()];
      released += detokenizer.Push(static_cast<uint8_t>(bytes.back()));
      // What is out stays out, and at most one code point is held back.
      const std::string whole = Replaced(bytes);
      ASSERT_EQ(whole.substr(0, released.size()), released);
      ASSERT_LE(whole.size() - released.size(), kReplacement.size());
    }
    ASSERT_EQ(released + detokenizer.Flush(), Replaced(bytes));
  }
}

}  // namespace
}  // namespace phalanx
