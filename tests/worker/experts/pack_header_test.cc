#include "worker/experts/pack_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/quantise.h"
#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

using testing::HasSubstr;

PackKey SomeKey() {
  return {.model_digest = std::string(64, 'a'),
          .packed_layout = "tiles32-1",
          .parts = 2,
          .layers = 3,
          .experts = 4,
          .gate_up = {.rows = 6, .cols = 10, .matrix_bytes = 100},
          .down = {.rows = 10, .cols = 3, .matrix_bytes = 64}};
}

std::string FileOf(const PackKey& key) {
  std::string file = PackHeader(key);
  file.resize(static_cast<size_t>(key.file_bytes()), 'x');
  return file;
}

absl::Status Check(const std::string& file, const PackKey& key) {
  return CheckPack(std::as_bytes(std::span(file)), key);
}

TEST(PackKey, PadsEachMatrixToTheAlignment) {
  EXPECT_EQ(SomeKey().part_bytes(), 128 + 64);
}

TEST(PackKey, PutsPartsInsideExpertsInsideLayers) {
  const PackKey key = SomeKey();

  EXPECT_EQ(key.offset(0, 0), kPackHeaderBytes);
  EXPECT_EQ(key.offset(2, 1), kPackHeaderBytes + (2 * 4 + 1) * 2 * 192);
  EXPECT_EQ(key.file_bytes(), kPackHeaderBytes + 3 * 4 * 2 * 192);
}

TEST(PackHeader, IsReadByPeople) {
  EXPECT_THAT(PackHeader(SomeKey()),
              HasSubstr("phalanx packed experts 1\nmodel aaaa"));
  EXPECT_THAT(
      PackHeader(SomeKey()),
      HasSubstr("layout tiles32-1\nweights bf16\nlayers 3\nexperts 4\nparts 2\n"
                "gate_up 6 x 10, 100 bytes\n"));
}

// Codes that another arithmetic made are not taken for this one's.
TEST(PackHeader, SaysWhichArithmeticQuantised) {
  PackKey key = SomeKey();
  key.format = WeightFormat::kInt8;
  const std::string name = absl::StrCat("int8-", kQuantiserVersion);

  EXPECT_THAT(PackHeader(key), HasSubstr("weights " + name + "\n"));
  EXPECT_THAT(key.file_name(), HasSubstr("-" + name + "-parts2"));
}

TEST(CheckPack, TakesTheFileOfItsKey) {
  EXPECT_OK(Check(FileOf(SomeKey()), SomeKey()));
}

TEST(CheckPack, RefusesTheFileOfEveryOtherKey) {
  const std::function<void(PackKey&)> changes[] = {
      [](PackKey& key) { key.model_digest[63] = 'b'; },
      [](PackKey& key) { key.packed_layout = "tiles32-2"; },
      [](PackKey& key) { key.format = WeightFormat::kInt8; },
      [](PackKey& key) { key.parts = 1; },
      [](PackKey& key) { key.layers = 4; },
      [](PackKey& key) { key.experts = 3; },
      [](PackKey& key) { key.gate_up.rows = 7; },
      [](PackKey& key) { key.gate_up.cols = 9; },
      [](PackKey& key) { key.gate_up.matrix_bytes = 101; },
      [](PackKey& key) { key.down.rows = 9; },
      [](PackKey& key) { key.down.cols = 4; },
      [](PackKey& key) { key.down.matrix_bytes = 63; }};
  for (const auto& change : changes) {
    PackKey other = SomeKey();
    change(other);
    EXPECT_THAT(Check(FileOf(other), SomeKey()),
                StatusIs(absl::StatusCode::kDataLoss,
                         HasSubstr("another model or layout")));
  }
}

TEST(CheckPack, RefusesEveryFlippedBitOfTheHeader) {
  const std::string good = FileOf(SomeKey());
  for (size_t bit = 0; bit < 8 * static_cast<size_t>(kPackHeaderBytes); ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
    ASSERT_THAT(Check(bad, SomeKey()),
                StatusIs(absl::StatusCode::kDataLoss, testing::_))
        << bit;
  }
}

TEST(CheckPack, RefusesEveryOtherLength) {
  const std::string good = FileOf(SomeKey());
  for (size_t length = 0; length < good.size(); ++length)
    ASSERT_THAT(Check(good.substr(0, length), SomeKey()),
                StatusIs(absl::StatusCode::kDataLoss, testing::_))
        << length;
  EXPECT_THAT(Check(good + "x", SomeKey()),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("has 8705 bytes; must be 8704")));
}

TEST(CheckPack, RefusesRandomBytes) {
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string bytes(random() % 9000, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    if (i % 2 == 0) bytes = "phalanx packed experts 1\n" + bytes;
    ASSERT_THAT(Check(bytes, SomeKey()),
                StatusIs(absl::StatusCode::kDataLoss, testing::_));
  }
}

}  // namespace
}  // namespace phalanx
