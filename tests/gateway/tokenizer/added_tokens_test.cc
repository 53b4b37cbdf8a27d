#include "gateway/tokenizer/added_tokens.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace phalanx {
namespace {

class AddedTokens : public testing::Test {
 protected:
  void ExpectFound(absl::string_view text, size_t from, size_t begin,
                   int32_t id) {
    const auto found = finder_.FindFrom(text, from);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->begin, begin);
    EXPECT_EQ(found->id, id);
  }

  AddedTokenFinder finder_{{{1, "<a>", true},
                            {2, "<a>b", false},
                            {3, "a>bc", false},
                            {4, "\u00E9", false}}};
};

TEST_F(AddedTokens, TheLongestOfThoseThatStartTogetherWins) {
  ExpectFound("x<a>by", 0, 1, 2);
  ExpectFound("x<a>y", 0, 1, 1);
}

TEST_F(AddedTokens, TheLeftmostWinsOverALongerOneFurtherOn) {
  ExpectFound("<a>bc", 0, 0, 2);
}

TEST_F(AddedTokens, TheSearchStartsWhereItIsTold) {
  ExpectFound("<a><a>", 1, 3, 1);
}

TEST_F(AddedTokens, AnAlmostTokenIsPassedOver) {
  ExpectFound("<a<a>", 0, 2, 1);
  EXPECT_FALSE(finder_.FindFrom("<a", 0).has_value());
}

TEST_F(AddedTokens, TokensBeyondAsciiAreFound) {
  ExpectFound("caf\u00E9", 0, 3, 4);
}

TEST_F(AddedTokens, NothingIsFoundInEmptyText) {
  EXPECT_FALSE(finder_.FindFrom("", 0).has_value());
}

TEST_F(AddedTokens, AnIdIsThatOfTheWholeContent) {
  EXPECT_EQ(finder_.IdOf("<a>b"), 2);
  EXPECT_EQ(finder_.IdOf("<a>bb"), std::nullopt);
  EXPECT_EQ(finder_.IdOf("<a"), std::nullopt);
  EXPECT_EQ(finder_.IdOf(""), std::nullopt);
}

TEST(AddedTokensNone, WithoutTokensNothingIsFound) {
  const AddedTokenFinder finder({});
  EXPECT_FALSE(finder.FindFrom("<a>", 0).has_value());
}

}  // namespace
}  // namespace phalanx
