#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/kernels/cpu/array.h"

namespace phalanx {
namespace {

constexpr float kEps = 1e-6f;

double MeanOfSquares(const std::vector<double>& x) {
  double sum = 0;
  for (const double v : x) sum += v * v;
  return sum / static_cast<double>(x.size());
}

std::vector<double> Head(const Array<uint16_t>& x, int64_t first, int64_t n) {
  std::vector<double> head;
  for (int64_t i = 0; i < n; ++i) head.push_back(Bf16ToF32(x[first + i]));
  return head;
}

std::vector<double> Head(const Array<float>& x, int64_t first, int64_t n) {
  return {x.values().begin() + first, x.values().begin() + first + n};
}

// f32 arithmetic errs by far less than the one rounding to bf16 it ends with.
void ExpectRounded(uint16_t actual, double expected) {
  EXPECT_NEAR(Bf16ToF32(actual), expected, Bf16Rounding(expected));
}

TEST(RmsNorm, EqualsTheDefinitionInDoubles) {
  for (const int64_t size : {1, 15, 16, 24, 80, 2048}) {
    Random random(1);
    const Array<uint16_t> x = random.Bf16(2, 5, size);
    const Array<float> w = random.F32(1, size);
    for (const auto& y : EveryWay([&](const KernelTable&table, ThreadPool&p) {
           Array<uint16_t> out(5, size);
           table.rms_norm(p, x, w, kEps, out);
           return out.values();
         })) {
      for (int64_t t = 0; t < 5; ++t) {
        const std::vector<double> head = Head(x, t * size, size);
        const double rms = std::sqrt(MeanOfSquares(head) + kEps);
        for (int64_t i = 0; i < size; ++i)
          ExpectRounded(y[t * size + i], head[i] / rms * w[i]);
      }
    }
  }
}

TEST(RmsNorm, OfHeadsIsThatOfRowsEachByItself) {
  Random random(2);
  const Array<uint16_t> x = random.Bf16(2, 3, 4, 24);
  const Array<float> w = random.F32(1, 24);
  ThreadPool pool({.threads = 1, .cpus = {}, .spin = false});
  for (const Isa isa : TestIsas()) {
    Array<uint16_t> heads(3, 4, 24), rows(12, 24);
    Kernels(isa).rms_norm(pool, x, w, kEps, heads);
    Tensor flat = MakeTensor(Tensor(x).data, DType::kBf16, 12, 24);
    Kernels(isa).rms_norm(pool, flat, w, kEps, rows);
    EXPECT_TRUE(SameBits(heads.values(), rows.values()));
  }
}

TEST(RmsNorm, MayWriteOverItsInputAndHasRowsFurtherApartThanWide) {
  Random random(3);
  const Array<uint16_t> x = random.Bf16(2, 4, 40);
  const Array<float> w = random.F32(1, 24);
  ThreadPool pool({.threads = 1, .cpus = {}, .spin = false});
  for (const Isa isa : TestIsas()) {
    Array<uint16_t> in_place(4, 40), apart(4, 24);
    std::copy(x.values().begin(), x.values().end(), in_place.values().begin());
    const Tensor left = SplitColumns<2>(in_place, {24, 16})[0];
    const Tensor left_of_x = SplitColumns<2>(Tensor(x), {24, 16})[0];
    Kernels(isa).rms_norm(pool, left_of_x, w, kEps, apart);
    Kernels(isa).rms_norm(pool, left, w, kEps, left);
    for (int64_t t = 0; t < 4; ++t)
      for (int64_t i = 0; i < 40; ++i)
        EXPECT_EQ(in_place[t * 40 + i],
                  i < 24 ? apart[t * 24 + i] : x[t * 40 + i]);
  }
}

TEST(GatedRmsNorm, EqualsTheDefinitionInDoubles) {
  for (const int64_t size : {16, 24, 128}) {
    Random random(4);
    const Array<float> x = random.F32(2, 5, 3, size);
    const Array<uint16_t> z = random.Bf16(3, 5, 3, size);
    const Array<float> w = random.F32(1, size);
    for (const auto& y : EveryWay([&](const KernelTable&table, ThreadPool&p) {
           Array<uint16_t> out(5, 3, size);
           table.gated_rms_norm(p, x, z, w, kEps, out);
           return out.values();
         })) {
      for (int64_t r = 0; r < 15; ++r) {
        const std::vector<double> head = Head(x, r * size, size);
        const std::vector<double> gate = Head(z, r * size, size);
        const double rms = std::sqrt(MeanOfSquares(head) + kEps);
        for (int64_t i = 0; i < size; ++i)
          ExpectRounded(y[r * size + i], head[i] / rms * w[i] * gate[i] /
                                             (1 + std::exp(-gate[i])));
      }
    }
  }
}

TEST(L2Norm, EqualsTheDefinitionInDoubles) {
  constexpr float kScale = 0.25f;
  for (const int64_t size : {16, 24, 128}) {
    Random random(5);
    const Array<float> x = random.F32(2, 5, 3, size);
    for (const auto& y : EveryWay([&](const KernelTable&table, ThreadPool&p) {
           Array<float> out(5, 3, size);
           table.l2_norm(p, x, kScale, out);
           return out.values();
         })) {
      for (int64_t r = 0; r < 15; ++r) {
        const std::vector<double> head = Head(x, r * size, size);
        const double norm = std::sqrt(MeanOfSquares(head) * size + 1e-6);
        // A dozen roundings of f32 at most.
        for (int64_t i = 0; i < size; ++i)
          EXPECT_NEAR(y[r * size + i], head[i] / norm * kScale, 12 * 0x1p-24);
      }
    }
  }
}

TEST(L2Norm, OfZerosIsZeros) {
  const Array<float> x(2, 3, 24);
  for (const auto& y : EveryWay([&](const KernelTable&table, ThreadPool&p) {
         Array<float> out(2, 3, 24);
         table.l2_norm(p, x, 1.0f, out);
         return out.values();
       }))
    EXPECT_EQ(y, x.values());
}

// Enough rows that two threads share them.
TEST(Norm, BitsAreTheSameInEverySetOnAnyNumberOfThreads) {
  constexpr int64_t kRows = 700;
  Random random(6);
  const Array<uint16_t> x = random.Bf16(2, kRows, 4, 72);
  const Array<float> f = random.F32(2, kRows, 4, 72);
  const Array<float> w = random.F32(1, 72);
  const auto results = EveryWay([&](const KernelTable& table, ThreadPool& p) {
    Array<uint16_t> plain(kRows, 4, 72), gated(kRows, 4, 72);
    table.rms_norm(p, x, w, kEps, plain);
    table.gated_rms_norm(p, f, x, w, kEps, gated);
    plain.values().insert(plain.values().end(), gated.values().begin(),
                          gated.values().end());
    return plain.values();
  });
  for (const auto& result : results) EXPECT_TRUE(SameBits(result, results[0]));
}

}  // namespace
}  // namespace phalanx
