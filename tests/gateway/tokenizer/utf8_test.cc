#include "gateway/tokenizer/utf8.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "absl/strings/str_cat.h"

namespace phalanx {
namespace {

using absl::string_view;

void ExpectUnit(string_view bytes, Utf8Kind kind, size_t size) {
  const Utf8Unit unit = FirstUtf8Unit(bytes);
  EXPECT_EQ(unit.kind, kind);
  EXPECT_EQ(unit.size, size);
}

TEST(Utf8, AWholeCodePointOfEachLengthIsWhole) {
  ExpectUnit("az", Utf8Kind::kWhole, 1);
  ExpectUnit("\xC3\xA9z", Utf8Kind::kWhole, 2);
  ExpectUnit("\xE4\xBD\xA0z", Utf8Kind::kWhole, 3);
  ExpectUnit("\xF4\x8F\xBF\xBFz", Utf8Kind::kWhole, 4);
}

TEST(Utf8, TheFrontOfACodePointIsCut) {
  ExpectUnit("\xC3", Utf8Kind::kCut, 1);
  ExpectUnit("\xE4\xBD", Utf8Kind::kCut, 2);
  ExpectUnit("\xF0\x9F\x98", Utf8Kind::kCut, 3);
}

TEST(Utf8, TheFrontOfASurrogateOrAnOverlongFormIsBrokenAtOnce) {
  ExpectUnit("\xED\xA0", Utf8Kind::kBroken, 1);
  ExpectUnit("\xE0\x80", Utf8Kind::kBroken, 1);
  ExpectUnit("\xF0\x80", Utf8Kind::kBroken, 1);
  ExpectUnit("\xF4\x90", Utf8Kind::kBroken, 1);
  ExpectUnit("\xC0\xAF", Utf8Kind::kBroken, 1);
  ExpectUnit("\xF8\x88", Utf8Kind::kBroken, 1);
}

TEST(Utf8, AnInterruptedCodePointIsBrokenForAsLongAsItWasSound) {
  ExpectUnit("\xF0\x9F\x98x", Utf8Kind::kBroken, 3);
  ExpectUnit("\xE4\xBD\xE4", Utf8Kind::kBroken, 2);
}

TEST(Utf8, EveryCodePointButSurrogatesIsValid) {
  for (uint32_t point = 0; point < 0x110000; ++point) {
    std::string text;
    if (point < 0x80) {
      text = {static_cast<char>(point)};
    } else if (point < 0x800) {
      text = {static_cast<char>(0xC0 | point >> 6),
              static_cast<char>(0x80 | (point & 0x3F))};
    } else if (point < 0x10000) {
      text = {static_cast<char>(0xE0 | point >> 12),
              static_cast<char>(0x80 | (point >> 6 & 0x3F)),
              static_cast<char>(0x80 | (point & 0x3F))};
    } else {
      text = {static_cast<char>(0xF0 | point >> 18),
              static_cast<char>(0x80 | (point >> 12 & 0x3F)),
              static_cast<char>(0x80 | (point >> 6 & 0x3F)),
              static_cast<char>(0x80 | (point & 0x3F))};
    }
    const bool surrogate = point >= 0xD800 && point < 0xE000;
    ASSERT_EQ(ValidUtf8Size(text), surrogate ? 0 : text.size()) << point;
  }
}

TEST(Utf8, TheValidFrontEndsAtTheFirstBadByteWhereverItStands) {
  for (size_t before = 0; before < 40; ++before) {
    const std::string front(before, 'a');
    EXPECT_EQ(ValidUtf8Size(absl::StrCat(front, "\xFF", "bbbbbbbbbbbb")),
              before);
    EXPECT_EQ(ValidUtf8Size(absl::StrCat(front, "\xE4\xBD")), before);
  }
}

}  // namespace
}  // namespace phalanx
