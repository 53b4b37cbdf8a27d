#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/kernels/cpu/array.h"

namespace phalanx {
namespace {

Array<float> Frequencies(int64_t pairs, double theta) {
  Array<float> f(pairs);
  for (int64_t i = 0; i < pairs; ++i)
    f[i] = static_cast<float>(std::pow(theta, -double(i) / double(pairs)));
  return f;
}

Array<int32_t> Positions(int64_t count) {
  Array<int32_t> positions(count);
  for (int64_t t = 0; t < count; ++t)
    positions[t] = static_cast<int32_t>(t * 1'009'999 / (count - 1));
  return positions;
}

struct Case {
  int64_t heads, head_size, pairs;
};

std::vector<std::vector<uint16_t>> RopeEveryWay(const Case& c, int64_t tokens,
                                                const Array<uint16_t>& x) {
  const Array<int32_t> positions = Positions(tokens);
  const Array<float> frequencies = Frequencies(c.pairs, 1e7);
  return EveryWay([&](const KernelTable& table, ThreadPool& pool) {
    Array<uint16_t> y(tokens, c.heads, c.head_size);
    std::copy(x.values().begin(), x.values().end(), y.values().begin());
    table.rope(pool, positions, frequencies, y);
    return y.values();
  });
}

TEST(Rope, TurnsPairsByTheAngleRoundedToF32) {
  constexpr int64_t kTokens = 40;
  for (const Case& c : {Case{2, 256, 32}, Case{3, 24, 3}, Case{2, 32, 16}}) {
    Random random(1);
    const Array<uint16_t> x = random.Bf16(1, kTokens, c.heads, c.head_size);
    const Array<int32_t> positions = Positions(kTokens);
    const Array<float> frequencies = Frequencies(c.pairs, 1e7);
    for (const auto& y : RopeEveryWay(c, kTokens, x)) {
      for (int64_t r = 0; r < kTokens * c.heads; ++r) {
        for (int64_t i = 0; i < c.pairs; ++i) {
          const int64_t low = r * c.head_size + i;
          const int64_t high = low + c.pairs;
          const float angle =
              static_cast<float>(positions[r / c.heads]) * frequencies[i];
          const double cosine = std::cos(double(angle));
          const double sine = std::sin(double(angle));
          const double a = Bf16ToF32(x[low]);
          const double b = Bf16ToF32(x[high]);
          // Where the two terms cancel, f32 leaves a few ulp of them.
          const double slack = (std::abs(a) + std::abs(b)) * 0x1p-21;
          const double first = a * cosine - b * sine;
          const double second = b * cosine + a * sine;
          EXPECT_NEAR(Bf16ToF32(y[low]), first, Bf16Rounding(first) + slack);
          EXPECT_NEAR(Bf16ToF32(y[high]), second, Bf16Rounding(second) + slack);
        }
      }
    }
  }
}

TEST(Rope, LeavesTheRestOfAHeadAlone) {
  const Case c = {2, 40, 3};
  Random random(2);
  const Array<uint16_t> x = random.Bf16(1, 9, c.heads, c.head_size);
  for (const auto& y : RopeEveryWay(c, 9, x))
    for (int64_t r = 0; r < 9 * c.heads; ++r)
      for (int64_t i = 2 * c.pairs; i < c.head_size; ++i)
        EXPECT_EQ(y[r * c.head_size + i], x[r * c.head_size + i]);
}

TEST(Rope, PositionZeroChangesNothing) {
  const Case c = {2, 32, 16};
  Random random(3);
  const Array<uint16_t> x = random.Bf16(1, 2, c.heads, c.head_size);
  for (const auto& y : RopeEveryWay(c, 2, x))
    for (int64_t i = 0; i < c.heads * c.head_size; ++i) EXPECT_EQ(y[i], x[i]);
}

TEST(Rope, BitsAreTheSameInEverySetOnAnyNumberOfThreads) {
  const Case c = {8, 72, 18};
  Random random(4);
  const Array<uint16_t> x = random.Bf16(1, 900, c.heads, c.head_size);
  const auto results = RopeEveryWay(c, 900, x);
  for (const auto& result : results) EXPECT_TRUE(SameBits(result, results[0]));
}

}  // namespace
}  // namespace phalanx
