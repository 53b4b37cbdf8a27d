#include "gateway/chat/special_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

TEST(SpecialTokens, AreStringsOrObjectsWithContent) {
  const auto tokens = ParseSpecialTokens(
      R"({"eos_token": "<e>", "unk_token": {"content": "<u>", "special": true},
          "additional_special_tokens": ["<a>", {"content": "<b>"}],
          "padding_side": "left"})",
      "file");

  ASSERT_OK(tokens);
  EXPECT_THAT(tokens->named,
              ElementsAre(Pair("eos_token", "<e>"), Pair("unk_token", "<u>")));
  EXPECT_THAT(tokens->additional, ElementsAre("<a>", "<b>"));
}

TEST(SpecialTokens, NullAndEmptyOnesAreNotThere) {
  const auto tokens = ParseSpecialTokens(
      R"({"bos_token": null, "sep_token": "",
          "additional_special_tokens": null})",
      "file");

  ASSERT_OK(tokens);
  EXPECT_THAT(tokens->named, IsEmpty());
  EXPECT_THAT(tokens->additional, IsEmpty());
}

TEST(SpecialTokens, NameTheKeyThatIsNoToken) {
  EXPECT_THAT(ParseSpecialTokens(R"({"cls_token": {"lstrip": true}})", "file"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "file: cls_token is no token; must be a string, an "
                       "object with a string \"content\", or null"));
  EXPECT_THAT(
      ParseSpecialTokens(R"({"additional_special_tokens": "x"})", "file"),
      StatusIs(absl::StatusCode::kInvalidArgument,
               "file: additional_special_tokens is no array"));
  EXPECT_THAT(ParseSpecialTokens("[]", "file"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "file holds no JSON object"));
}

}  // namespace
}  // namespace phalanx
