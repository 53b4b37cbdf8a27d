#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/cpu/array.h"

namespace phalanx {
namespace {

TEST(Embed, CopiesTheRowsThisRankOwnsAndZerosTheRest) {
  constexpr int64_t kWidth = 20;
  Random random(1);
  const Array<uint16_t> table = random.Bf16(1, 4, kWidth);
  const Array<int32_t> ids = Ints({10, 9, 13, 14, 0, 12});
  for (const auto& y : EveryWay([&](const KernelTable&kernels, ThreadPool&p) {
         Array<uint16_t> out(6, kWidth);
         kernels.embed(p, ids, table, 10, out);
         return out.values();
       })) {
    for (int64_t t = 0; t < 6; ++t)
      for (int64_t i = 0; i < kWidth; ++i) {
        const int64_t row = ids[t] - 10;
        const bool owned = row >= 0 && row < 4;
        EXPECT_EQ(y[t * kWidth + i], owned ? table[row * kWidth + i] : 0);
      }
  }
}

TEST(SelectOwner, TakesEachRowFromTheRankThatOwnsTheId) {
  constexpr int64_t kWidth = 12;
  Random random(2);
  const Array<uint16_t> gathered = random.Bf16(1, 2, 3, kWidth);
  const Array<int32_t> ids = Ints({7, 2, 5});
  for (const auto& y : EveryWay([&](const KernelTable&kernels, ThreadPool&p) {
         Array<uint16_t> out(3, kWidth);
         kernels.select_owner(p, ids, 5, gathered, out);
         return out.values();
       })) {
    for (int64_t t = 0; t < 3; ++t)
      for (int64_t i = 0; i < kWidth; ++i)
        EXPECT_EQ(y[t * kWidth + i],
                  gathered[((ids[t] / 5) * 3 + t) * kWidth + i]);
  }
}

TEST(Copy, CopiesRowsOfAnyLength) {
  for (const int64_t width : {1, 3, 4000, 40000}) {
    Random random(4);
    const Array<uint16_t> x = random.Bf16(1, 5, width);
    for (const auto& y : EveryWay([&](const KernelTable&kernels, ThreadPool&p) {
           Array<uint16_t> out(5, width);
           kernels.copy(p, x, out);
           return out.values();
         }))
      EXPECT_EQ(y, x.values()) << width;
  }
}

TEST(GatherRows, CopiesTheRowsInTheOrderAsked) {
  constexpr int64_t kWidth = 12;
  Random random(3);
  const Array<uint16_t> x = random.Bf16(1, 5, kWidth);
  const Array<int32_t> rows = Ints({4, 0, 4, 2});
  for (const auto& y : EveryWay([&](const KernelTable&kernels, ThreadPool&p) {
         Array<uint16_t> out(4, kWidth);
         kernels.gather_rows(p, x, rows, out);
         return out.values();
       })) {
    for (int64_t r = 0; r < 4; ++r)
      for (int64_t i = 0; i < kWidth; ++i)
        EXPECT_EQ(y[r * kWidth + i], x[rows[r] * kWidth + i]);
  }
}

TEST(Add, RoundsTheSumOnce) {
  constexpr int64_t kWidth = 37;
  Random random(4);
  const Array<uint16_t> a = random.Bf16(1, 3, kWidth);
  const Array<uint16_t> b = random.Bf16(1, 3, kWidth);
  for (const auto& y : EveryWay([&](const KernelTable&kernels, ThreadPool&p) {
         Array<uint16_t> out(3, kWidth);
         kernels.add(p, a, b, out);
         return out.values();
       })) {
    for (int64_t i = 0; i < a.size(); ++i)
      EXPECT_EQ(y[i], F32ToBf16(Bf16ToF32(a[i]) + Bf16ToF32(b[i])));
  }
}

TEST(MulSigmoid, EqualsTheDefinitionInDoubles) {
  constexpr int64_t kWidth = 37;
  Random random(5);
  const Array<float> x = random.F32(1, 3, kWidth);
  const Array<uint16_t> gate = random.Bf16(4, 3, kWidth);
  for (const auto& y : EveryWay([&](const KernelTable&kernels, ThreadPool&p) {
         Array<uint16_t> out(3, kWidth);
         kernels.mul_sigmoid(p, x, gate, out);
         return out.values();
       })) {
    for (int64_t i = 0; i < x.size(); ++i) {
      const double expected =
          x[i] / (1 + std::exp(-double(Bf16ToF32(gate[i]))));
      EXPECT_NEAR(Bf16ToF32(y[i]), expected, Bf16Rounding(expected));
    }
  }
}

TEST(Elementwise, BitsAreTheSameInEverySetOnAnyNumberOfThreads) {
  constexpr int64_t kRows = 400, kWidth = 500;
  Random random(6);
  const Array<float> x = random.F32(1, kRows, kWidth);
  const Array<uint16_t> gate = random.Bf16(4, kRows, kWidth);
  const auto results = EveryWay([&](const KernelTable& kernels, ThreadPool& p) {
    Array<uint16_t> y(kRows, kWidth);
    kernels.mul_sigmoid(p, x, gate, y);
    kernels.add(p, y, gate, y);
    return y.values();
  });
  for (const auto& result : results) EXPECT_TRUE(SameBits(result, results[0]));
}

}  // namespace
}  // namespace phalanx
