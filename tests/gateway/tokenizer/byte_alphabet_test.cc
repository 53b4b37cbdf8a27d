#include "gateway/tokenizer/byte_alphabet.h"

#include <gtest/gtest.h>

#include <string>

namespace phalanx {
namespace {

TEST(ByteAlphabet, PrintableBytesStandForThemselves) {
  EXPECT_EQ(BytesOfSpelling("Az~!"), "Az~!");
  EXPECT_EQ(BytesOfSpelling("\u00A1\u00AE\u00FF"), "\xA1\xAE\xFF");
}

TEST(ByteAlphabet, TheOtherBytesFollowFromU0100InOrder) {
  EXPECT_EQ(BytesOfSpelling("\u0100"), std::string(1, '\0'));
  EXPECT_EQ(BytesOfSpelling("\u010A"), "\n");
  EXPECT_EQ(BytesOfSpelling("\u0120"), " ");
  EXPECT_EQ(BytesOfSpelling("\u0121"), "\x7F");
  EXPECT_EQ(BytesOfSpelling("\u0143"), "\xAD");
}

TEST(ByteAlphabet, ACharacterOutsideItHasNoBytes) {
  EXPECT_EQ(BytesOfSpelling(" "), std::nullopt);
  EXPECT_EQ(BytesOfSpelling("a\u0144"), std::nullopt);
  EXPECT_EQ(BytesOfSpelling("\u00AD"), std::nullopt);
  EXPECT_EQ(BytesOfSpelling("\u4F60"), std::nullopt);
  EXPECT_EQ(BytesOfSpelling("\U0001F600"), std::nullopt);
}

}  // namespace
}  // namespace phalanx
