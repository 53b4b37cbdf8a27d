#include "gateway/tokenizer/pretokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "tests/gateway/tokenizer/golden_vocabulary.h"
#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr auto kRefused = absl::StatusCode::kInvalidArgument;

absl::StatusOr<std::vector<std::string>> Split(const std::string& pattern,
                                               const std::string& text) {
  auto pretokenizer = Pretokenizer::Create(pattern);
  if (!pretokenizer.ok()) return pretokenizer.status();
  std::vector<std::string> pieces;
  const absl::Status status =
      (*pretokenizer)->Split(text, [&](absl::string_view piece) {
        pieces.emplace_back(piece);
      });
  if (!status.ok()) return status;
  return pieces;
}

std::vector<std::string> Pieces(const std::string& pattern,
                                const std::string& text) {
  const auto pieces = Split(pattern, text);
  EXPECT_OK(pieces);
  return pieces.ok() ? *pieces : std::vector<std::string>{};
}

// Checks every golden string; `differs` are those that hold letters or marks of
// Unicode 15 and 16, which PCRE2 10.42 (Unicode 14) does not know.
void ExpectGoldenPieces(const std::string& pattern, const std::string& key,
                        const std::set<std::string>& differs) {
  const auto pretokenizer = Pretokenizer::Create(pattern);
  ASSERT_OK(pretokenizer);
  for (const auto& line : GoldenLines("pieces.jsonl")) {
    const std::string text = line["text"];
    const std::vector<std::string> wanted =
        line.contains(key) ? line[key] : line["pieces_qwen35"];
    std::vector<std::string> pieces;
    ASSERT_OK(
        (*pretokenizer)
            ->Split(line.value("nfc", text), [&](absl::string_view piece) {
              pieces.emplace_back(piece);
            }));
    EXPECT_EQ(pieces != wanted, differs.contains(text)) << text;
  }
}

TEST(Pretokenizer, SplitsTheGoldenStringsAsQwen35ButForThreeWithNewMarks) {
  ExpectGoldenPieces(
      Qwen35Pattern(), "pieces_qwen35",
      {"a\U0001E08F\u0323", "a\u0301\U00010EFD", "a\u0897\u0323"});
}

TEST(Pretokenizer, SplitsTheGoldenStringsAsQwen3ButForOneWithANewLetter) {
  ExpectGoldenPieces(Qwen3Pattern(), "pieces_qwen3", {"\U000105D2\u0307"});
}

TEST(Pretokenizer, TheLastSpaceOfARunGoesToTheNextWord) {
  EXPECT_THAT(Pieces(Qwen35Pattern(), "a   b  "),
              ElementsAre("a", "  ", " b", "  "));
}

TEST(Pretokenizer, WhatLiesBetweenMatchesIsAPieceToo) {
  EXPECT_THAT(Pieces("[0-9]+", "ab12c3"), ElementsAre("ab", "12", "c", "3"));
}

TEST(Pretokenizer, TextWithoutAMatchIsOnePiece) {
  EXPECT_THAT(Pieces("[0-9]+", "abc"), ElementsAre("abc"));
}

TEST(Pretokenizer, EmptyTextHasNoPieces) {
  EXPECT_THAT(Pieces(Qwen35Pattern(), ""), ElementsAre());
}

TEST(Pretokenizer, EmptyMatchesCutAndGoOn) {
  EXPECT_THAT(Pieces("(?=\u00E9)|x*", "a\u00E9xx"),
              ElementsAre("a", "\u00E9", "xx"));
}

TEST(Pretokenizer, RefusesAPatternWithTheByteAndTheReason) {
  EXPECT_THAT(Split("a(b", "x"),
              StatusIs(kRefused, HasSubstr("\"a(b\" is refused at byte 3: "
                                           "missing closing parenthesis")));
}

TEST(Pretokenizer, RefusesAnEmptyPattern) {
  EXPECT_THAT(Split("", "x"), StatusIs(kRefused, HasSubstr("1..16384")));
}

TEST(Pretokenizer, RefusesALongPattern) {
  EXPECT_THAT(Split(std::string(kMaxSplitPatternBytes + 1, 'a'), "x"),
              StatusIs(kRefused, HasSubstr("has 16385 bytes; must be")));
}

TEST(Pretokenizer, RefusesToMatchSingleBytes) {
  EXPECT_THAT(Split("\\C", "\u00E9"),
              StatusIs(kRefused, HasSubstr("is refused")));
}

TEST(Pretokenizer, APatternOfExponentialTimeMeetsItsLimit) {
  EXPECT_THAT(Split("(?:a|a|b?)+[cd]", std::string(200, 'a')),
              StatusIs(kRefused, HasSubstr("stops at byte 0 of 200: ")));
}

TEST(Pretokenizer, RefusesAMatchThatStartsBehindItsEnd) {
  // The subroutine's \\K moves the start past the "a" that is matched.
  EXPECT_THAT(Split("(?=(?1))a(?:(ab\\K)){0}", "xab"),
              StatusIs(kRefused, HasSubstr("matches backwards at byte 0")));
}

TEST(Pretokenizer, AMillionSpacesBeforeALetterAreTwoPieces) {
  const std::string spaces(1 << 20, ' ');
  EXPECT_THAT(Pieces(Qwen35Pattern(), spaces + " x"),
              ElementsAre(spaces, " x"));
}

TEST(Pretokenizer, AMillionWideSpacesBeforeALetterAreTwoPieces) {
  std::string spaces;
  for (int i = 0; i < 1 << 20; ++i) spaces += "\u3000";
  EXPECT_THAT(Pieces(Qwen35Pattern(), spaces + " x"),
              ElementsAre(spaces, " x"));
}

}  // namespace
}  // namespace phalanx
