// The CUDA sources under other orders of threads, and with each of their
// barriers left out: one that nobody would miss does not belong there, and one
// that is missed shows.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/kernels/cuda/card.h"

namespace phalanx {
namespace {

using testing::Each;
using testing::IsEmpty;
using testing::Ne;
using testing::Not;
using testing::SizeIs;

constexpr int kSeeds = 4;

struct Outcome {
  std::vector<float> values;          // None if the product could not go on.
  std::vector<std::string> barriers;  // That its blocks waited at.
};

// A product that fills its panel several times, in narrow or in wide blocks.
Outcome Product(int64_t tokens, uint64_t seed, const std::string& left_out) {
  constexpr int64_t kCols = 192, kRows = 70;
  Card card({.staging_bytes = 65536});
  const Tensor x = card.Bf16(RandomBits(1, tokens * kCols), tokens, kCols);
  const PackedWeight& w =
      card.Weight(RandomBits(2, kRows * kCols), kRows, kCols);
  const Tensor y = card.New(DType::kF32, tokens, kRows);
  cuda_on_cpu::SetSeed(seed);
  cuda_on_cpu::LeaveOutBarrier(left_out);
  card.ops().MatMulSliced(x, w, 2, y);
  Outcome outcome;
  if (card.backend().Synchronize().ok()) outcome.values = card.Read<float>(y);
  outcome.barriers = cuda_on_cpu::BarriersSeen();
  return outcome;
}

class Barriers : public testing::TestWithParam<int64_t> {
 protected:
  // Of each seed, with that barrier left out.
  std::vector<std::vector<float>> Products(const std::string& left_out) {
    std::vector<std::vector<float>> products;
    for (int seed = 1; seed <= kSeeds; ++seed)
      products.push_back(Product(GetParam(), seed, left_out).values);
    return products;
  }
};

TEST_P(Barriers, MakeTheOrderOfThreadsNoMatter) {
  const std::vector<std::vector<float>> products = Products("");

  ASSERT_THAT(products[0], Not(IsEmpty()));
  EXPECT_THAT(products, Each(products[0]));
}

TEST_P(Barriers, AreEachMissedWhenLeftOut) {
  const Outcome whole = Product(GetParam(), /*seed=*/1, "");

  ASSERT_THAT(whole.barriers, SizeIs(2));
  for (const std::string& barrier : whole.barriers)
    EXPECT_THAT(Products(barrier), Each(Ne(whole.values))) << barrier;
}

INSTANTIATE_TEST_SUITE_P(Blocks, Barriers, testing::Values(5, 20),
                         [](const testing::TestParamInfo<int64_t>& info) {
                           return info.param <= 8 ? "Narrow" : "Wide";
                         });

}  // namespace
}  // namespace phalanx
