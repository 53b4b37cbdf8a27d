// Products against the plainest loop there is, to the bit, at shapes that leave
// every tile ragged.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "kernels/exact_math.h"
#include "tests/kernels/cuda/card.h"

namespace phalanx {
namespace {

struct Shape {
  int64_t tokens, cols, rows;
  int slices = 1;
};

// The chain of design rule 2 over [first, last) of one token and one row.
float ChainOf(const Bits& x, const Bits& w, const Shape& s, int64_t token,
              int64_t row, int64_t first, int64_t last) {
  float sum = 0;
  for (int64_t k = first; k < last; ++k)
    sum = std::fma(Bf16ToF32(x[token * s.cols + k]),
                   Bf16ToF32(w[row * s.cols + k]), sum);
  return sum;
}

// The tree of design rule 1 over slices [first, first + count).
float TreeOf(const Bits& x, const Bits& w, const Shape& s, int64_t token,
             int64_t row, int64_t first, int64_t count) {
  const int64_t n = s.cols / s.slices;
  if (count == 1)
    return ChainOf(x, w, s, token, row, first * n, (first + 1) * n);
  return TreeOf(x, w, s, token, row, first, count / 2) +
         TreeOf(x, w, s, token, row, first + count / 2, count / 2);
}

// Values of very different sizes, so that another order is another sum.
Bits Spread(uint64_t seed, int64_t count) {
  Bits bits = RandomBits(seed, count);
  for (int64_t i = 0; i < count; ++i)
    bits[i] = F32ToBf16(
        std::ldexp(Bf16ToF32(bits[i]), static_cast<int>((i * 7 + seed) % 23)));
  return bits;
}

class CudaProduct : public testing::TestWithParam<Shape> {
 protected:
  const Shape s_ = GetParam();
  const Bits x_ = Spread(1, s_.tokens* s_.cols);
  const Bits w_ = Spread(2, s_.rows* s_.cols);
  Card card_;
};

TEST_P(CudaProduct, IsTheTreeOfChainsInTheOrderOfColumns) {
  const Tensor y = card_.New(DType::kF32, s_.tokens, s_.rows);

  card_.ops().MatMulSliced(card_.Bf16(x_, s_.tokens, s_.cols),
                           card_.Weight(w_, s_.rows, s_.cols), s_.slices, y);

  const std::vector<float> got = card_.Read<float>(y);
  for (int64_t t = 0; t < s_.tokens; ++t)
    for (int64_t r = 0; r < s_.rows; ++r)
      ASSERT_EQ(got[t * s_.rows + r], TreeOf(x_, w_, s_, t, r, 0, s_.slices))
          << "token " << t << ", row " << r;
}

TEST_P(CudaProduct, RoundsEachSumOnce) {
  const Tensor y = card_.New(DType::kBf16, s_.tokens, s_.rows);

  card_.ops().MatMul(card_.Bf16(x_, s_.tokens, s_.cols),
                     card_.Weight(w_, s_.rows, s_.cols), y);

  const Bits got = card_.Read<uint16_t>(y);
  for (int64_t t = 0; t < s_.tokens; ++t)
    for (int64_t r = 0; r < s_.rows; ++r)
      ASSERT_EQ(got[t * s_.rows + r],
                F32ToBf16(ChainOf(x_, w_, s_, t, r, 0, s_.cols)))
          << "token " << t << ", row " << r;
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, CudaProduct,
    testing::Values(Shape{1, 2, 1}, Shape{1, 64, 16}, Shape{3, 66, 70, 1},
                    Shape{8, 128, 64, 4}, Shape{9, 96, 17, 8},
                    Shape{33, 48, 66, 8}, Shape{40, 36, 9, 2}),
    [](const testing::TestParamInfo<Shape>& info) {
      const Shape& s = info.param;
      return "T" + std::to_string(s.tokens) + "K" + std::to_string(s.cols) +
             "N" + std::to_string(s.rows) + "By" + std::to_string(s.slices);
    });

TEST(CudaGateUp, IsSiluOfTheRoundedGateTimesTheRoundedUp) {
  const Shape s = {9, 66, 2 * 19};
  const Bits x = RandomBits(1, s.tokens * s.cols);
  const Bits w = RandomBits(2, s.rows * s.cols);
  Card card;
  const Tensor y = card.New(DType::kBf16, s.tokens, s.rows / 2);

  card.ops().GateUp(card.Bf16(x, s.tokens, s.cols),
                    card.Weight(w, s.rows, s.cols, WeightLayout::kGateUp), y);

  const auto rounded = [&](int64_t t, int64_t row) {
    return Bf16ToF32(F32ToBf16(ChainOf(x, w, s, t, row, 0, s.cols)));
  };
  const Bits got = card.Read<uint16_t>(y);
  for (int64_t t = 0; t < s.tokens; ++t)
    for (int64_t r = 0; r < s.rows / 2; ++r)
      ASSERT_EQ(got[t * (s.rows / 2) + r],
                F32ToBf16(Silu(rounded(t, r)) * rounded(t, s.rows / 2 + r)))
          << "token " << t << ", output " << r;
}

}  // namespace
}  // namespace phalanx
