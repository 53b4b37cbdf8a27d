#include "common/byte_size.h"

#include <gtest/gtest.h>

#include <string>

#include "common/units.h"
#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::HasSubstr;

int64_t Parsed(absl::string_view text) {
  return ParseByteSize("size", text).value_or(-1);
}

TEST(ParseByteSize, TakesPlainBytes) {
  EXPECT_EQ(Parsed("1"), 1);
  EXPECT_EQ(Parsed("1048577"), 1048577);
  EXPECT_EQ(Parsed("17B"), 17);
}

TEST(ParseByteSize, PlainBytesAreExactBeyondADoublesDigits) {
  EXPECT_EQ(Parsed("9007199254740993"), int64_t{9007199254740993});
}

TEST(ParseByteSize, DecimalUnitsAreOf1000) {
  EXPECT_EQ(Parsed("1KB"), 1000);
  EXPECT_EQ(Parsed("2.5MB"), 2500000);
  EXPECT_EQ(Parsed("80GB"), int64_t{80000000000});
  EXPECT_EQ(Parsed("1TB"), int64_t{1000000000000});
}

TEST(ParseByteSize, BinaryUnitsAreOf1024) {
  EXPECT_EQ(Parsed("1KiB"), kKiB);
  EXPECT_EQ(Parsed("1.5MiB"), 3 * kMiB / 2);
  EXPECT_EQ(Parsed("96GiB"), 96 * kGiB);
  EXPECT_EQ(Parsed("2TiB"), 2048 * kGiB);
}

TEST(ParseByteSize, PartOfAByteIsDropped) {
  EXPECT_EQ(Parsed("94.4GiB"), int64_t{101361228185});
}

class ParseByteSizeRefuses : public testing::TestWithParam<const char*> {};

TEST_P(ParseByteSizeRefuses, NamingFieldValueAndRule) {
  EXPECT_THAT(ParseByteSize("--device-memory", GetParam()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("--device-memory is \""),
                             HasSubstr("; must be "))));
}

INSTANTIATE_TEST_SUITE_P(Texts, ParseByteSizeRefuses,
                         testing::Values("", "GiB", "-1", "1e3", "nan", "0x10",
                                         "1..2GiB", "1.", ".5GiB", "80 GB",
                                         "80gb", "80GBs", "0", "0.5",
                                         "1048577TiB", "99999999999999999999",
                                         "1152921504606846977"));

TEST(ParseByteSize, ALongTextIsCutInTheRefusal) {
  const absl::Status status =
      ParseByteSize("size", std::string(10000, '9')).status();

  EXPECT_LT(status.message().size(), 200u);
}

TEST(FormatByteSize, TakesTheLargestUnitThatLeavesAtLeastOne) {
  EXPECT_EQ(FormatByteSize(0), "0 B");
  EXPECT_EQ(FormatByteSize(1023), "1023 B");
  EXPECT_EQ(FormatByteSize(1536), "1.50 KiB");
  EXPECT_EQ(FormatByteSize(512 * kMiB), "512.00 MiB");
  EXPECT_EQ(FormatByteSize(60 * kGiB), "60.00 GiB");
  EXPECT_EQ(FormatByteSize(2048 * kGiB), "2.00 TiB");
}

}  // namespace
}  // namespace phalanx
