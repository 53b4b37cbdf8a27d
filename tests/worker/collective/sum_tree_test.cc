#include "worker/collective/sum_tree.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "kernels/bf16.h"
#include "tests/worker/collective/groups.h"

namespace phalanx {
namespace {

std::vector<std::vector<float>> Planes(int n, int64_t count) {
  std::vector<std::vector<float>> planes;
  for (int r = 0; r < n; ++r) planes.push_back(Values(r + 1, count));
  return planes;
}

std::vector<const float*> Pointers(
    const std::vector<std::vector<float>>& planes) {
  std::vector<const float*> pointers;
  for (const auto& plane : planes) pointers.push_back(plane.data());
  return pointers;
}

class SumTree : public testing::TestWithParam<int> {};

TEST_P(SumTree, AddsNeighboursInPairsToTheBit) {
  const auto planes = Planes(GetParam(), 1003);
  std::vector<float> sum(1003);

  SumPlanes(Pointers(planes), 1003, sum.data());

  const auto want = PairwiseSum(planes);
  EXPECT_EQ(std::memcmp(sum.data(), want.data(), 1003 * sizeof(float)), 0);
}

TEST_P(SumTree, MayBeWrittenOverAPlane) {
  auto planes = Planes(GetParam(), 1003);
  const auto want = PairwiseSum(planes);

  SumPlanes(Pointers(planes), 1003, planes.back().data());

  EXPECT_EQ(std::memcmp(planes.back().data(), want.data(), 1003 * 4), 0);
}

TEST_P(SumTree, HasTheSameBitsInNarrowVectors) {
  const auto planes = Planes(GetParam(), 1003);
  std::vector<float> sum(1003), narrow_sum(1003);
  std::vector<uint16_t> rounded(1003), narrow_rounded(1003);

  SumPlanes(Pointers(planes), 1003, sum.data());
  SumPlanesPortably(Pointers(planes), 1003, narrow_sum.data());
  SumPlanes(Pointers(planes), 1003, rounded.data());
  SumPlanesPortably(Pointers(planes), 1003, narrow_rounded.data());

  EXPECT_EQ(std::memcmp(sum.data(), narrow_sum.data(), 1003 * 4), 0);
  EXPECT_EQ(rounded, narrow_rounded);
}

TEST_P(SumTree, RoundsTheSumToBf16Once) {
  const auto planes = Planes(GetParam(), 1003);
  std::vector<uint16_t> sum(1003);

  SumPlanes(Pointers(planes), 1003, sum.data());

  const auto want = PairwiseSum(planes);
  for (int i = 0; i < 1003; ++i) ASSERT_EQ(sum[i], F32ToBf16(want[i])) << i;
}

INSTANTIATE_TEST_SUITE_P(Sizes, SumTree, testing::Values(1, 2, 4, 8, 16));

TEST(SumTreeOrder, IsNotLeftToRight) {
  // (1 + 2^-24) + (2^-24 + 2^-24): only the pair of small ones survives.
  const float tiny = 0x1p-24f;
  const std::vector<std::vector<float>> planes = {{1}, {tiny}, {tiny}, {tiny}};
  float sum = 0;

  SumPlanes(Pointers(planes), 1, &sum);

  EXPECT_EQ(sum, 1 + 0x1p-23f);
}

TEST(SumTreeDeathTest, RefusesThreePlanes) {
  const auto planes = Planes(3, 4);
  std::vector<float> sum(4);

  EXPECT_DEATH(SumPlanes(Pointers(planes), 4, sum.data()), "IsGroupSize");
}

}  // namespace
}  // namespace phalanx
