#include "worker/bench/roofs.h"

#include <gtest/gtest.h>

namespace phalanx {
namespace {

TEST(LeastSeconds, AreThoseOfTheLongerOfBytesAndOperations) {
  const Roofs roofs{.read = 100, .int8_dot = 1000};

  EXPECT_EQ(LeastSeconds(200, 1000, Peak::kInt8, roofs), 2);
  EXPECT_EQ(LeastSeconds(200, 3000, Peak::kInt8, roofs), 3);
}

TEST(LeastSeconds, OfWhatBytesAloneBindAreTheirs) {
  EXPECT_EQ(LeastSeconds(200, 3000, Peak::kNone, {.read = 100}), 2);
}

TEST(LeastSeconds, AreNoneWithoutTheInstruction) {
  EXPECT_EQ(LeastSeconds(200, 1, Peak::kInt8, {.read = 100, .f32_fma = 9}),
            std::nullopt);
}

TEST(PeakOf, TheFasterWayToMultiplyBf16Counts) {
  EXPECT_EQ(PeakOf(Peak::kBf16, {.f32_fma = 2, .bf16_dot = 1}), 2);
  EXPECT_EQ(PeakOf(Peak::kBf16, {.f32_fma = 2, .bf16_dot = 4}), 4);
}

TEST(PeakFor, OfQuantisedWeightsIsTheInt8Dot) {
  EXPECT_EQ(PeakFor(WeightFormat::kBf16), Peak::kBf16);
  EXPECT_EQ(PeakFor(WeightFormat::kInt8), Peak::kInt8);
  EXPECT_EQ(PeakFor(WeightFormat::kInt4), Peak::kInt8);
}

TEST(CompletedBy, KeepsWhatWasLookedAt) {
  const Roofs all = CompletedBy({.read = 1, .int8_dot = 2},
                                {.read = 10, .f32_fma = 30, .int8_dot = 20});

  EXPECT_EQ(all.read, 1);
  EXPECT_EQ(all.int8_dot, 2);
  EXPECT_EQ(all.f32_fma, 30);
  EXPECT_EQ(all.bf16_dot, 0);
}

}  // namespace
}  // namespace phalanx
