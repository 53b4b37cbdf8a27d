#include "gateway/tokenizer/normalizer.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/gateway/tokenizer/golden_vocabulary.h"
#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

TEST(Normalizer, TextInNfcIsGivenBackUncopied) {
  const std::string text = "na\u00EFve caf\u00E9";
  std::string buffer;
  const auto normal = NormalizeNfc(text, buffer);
  ASSERT_OK(normal);
  EXPECT_EQ(normal->data(), text.data());
}

TEST(Normalizer, ALetterAndItsAccentBecomeOne) {
  std::string buffer;
  const auto normal = NormalizeNfc("cafe\u0301!", buffer);
  ASSERT_OK(normal);
  EXPECT_EQ(*normal, "caf\u00E9!");
}

TEST(Normalizer, EmptyTextIsInNfc) {
  std::string buffer;
  const auto normal = NormalizeNfc("", buffer);
  ASSERT_OK(normal);
  EXPECT_EQ(*normal, "");
}

// Two golden strings hold characters younger than the reference's Unicode 9,
// which ICU composes or reorders: the README says what to do about it.
TEST(Normalizer, AgreesWithTheReferenceButForCharactersItDoesNotKnow) {
  const std::set<std::string> younger = {"\U00011935\U00011930",
                                         "a\U0001E08F\u0323"};
  std::string buffer;
  for (const auto& line : GoldenLines("pieces.jsonl")) {
    const std::string text = line["text"];
    const std::string wanted = line.value("nfc", text);
    const auto normal = NormalizeNfc(text, buffer);
    ASSERT_OK(normal);
    EXPECT_EQ(std::string(*normal) != wanted, younger.contains(text)) << text;
  }
}

}  // namespace
}  // namespace phalanx
