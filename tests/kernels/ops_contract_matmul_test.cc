// MatMul, GateUp, MatMulSliced.

#include <cmath>

#include "tests/kernels/ops_contract.h"

namespace phalanx {
namespace {

using testing::ElementsAre;

// The largest f32 integers that 1 still changes end here: 2^24 + 1 is 2^24.
constexpr float k2To12 = 4096;
constexpr float k2To24 = 16777216;

TEST_P(OpsContract, MatMulOfAKnownMatrixIsItsRowsTimesTheInput) {
  const PackedWeight& w = rig_.Weight(1, 3, 2, {1, 2, 3, 4, 5, 6});
  const Tensor y = rig_.Act({2, 3});

  ops_.MatMul(rig_.Act({2, 2}, {1, 1, 2, -1}), w, y);

  EXPECT_THAT(rig_.Read(y), ElementsAre(3, 7, 11, 0, 2, 4));
}

TEST_P(OpsContract, MatMulRoundsToActOnStore) {
  const PackedWeight& w = rig_.Weight(1, 1, 2, {1, 1});
  const Tensor y = rig_.Act({1, 1});

  ops_.MatMul(rig_.Act({1, 2}, {1, 0x1p-9f}), w, y);

  EXPECT_EQ(rig_.Read(y)[0], rig_.rounds() ? 1 : 1 + 0x1p-9f);
}

TEST_P(OpsContract, MatMulToF32DoesNotRound) {
  const PackedWeight& w = rig_.Weight(1, 1, 2, {1, 1});
  const Tensor y = rig_.F32({1, 1});

  ops_.MatMul(rig_.Act({1, 2}, {1, 0x1p-9f}), w, y);

  EXPECT_EQ(rig_.Read(y)[0], 1 + 0x1p-9f);
}

TEST_P(OpsContract, MatMulOfTheFmaFamilyIsOneChainInTheOrderOfColumns) {
  if (rig_.backend().kernel_family() != "fma-1")
    GTEST_SKIP() << "another family sums otherwise";
  const PackedWeight& w =
      rig_.Weight(1, 2, 4, {k2To12, 1, 1, 0, 0, 1, 1, k2To12});
  const Tensor y = rig_.F32({1, 2});

  ops_.MatMul(rig_.Act({1, 4}, {k2To12, 1, 1, k2To12}), w, y);

  EXPECT_THAT(rig_.Read(y), ElementsAre(k2To24, k2To24 + 2));
}

TEST_P(OpsContract, GateUpIsSiluOfTheFirstHalfTimesTheSecond) {
  const PackedWeight& w =
      rig_.Weight(1, 4, 2, {2, 0, 0, -1, 3, 0, 0, 5}, WeightLayout::kGateUp);
  const Tensor y = rig_.Act({1, 2});

  ops_.GateUp(rig_.Act({1, 2}, {1, 2}), w, y);

  ExpectNear(rig_.Read(y),
             {2 / (1 + std::exp(-2.0)) * 3, -2 / (1 + std::exp(2.0)) * 10},
             Slack(rig_));
}

TEST_P(OpsContract, GateUpRoundsBothProductsToActFirst) {
  // Up is 1 + 2^-8, which bf16 rounds to 1.
  const PackedWeight& w =
      rig_.Weight(1, 2, 2, {48, 0, 1, 1}, WeightLayout::kGateUp);
  const Tensor y = rig_.Act({1, 1});

  ops_.GateUp(rig_.Act({1, 2}, {1, 0x1p-8f}), w, y);

  EXPECT_EQ(rig_.Read(y)[0], rig_.rounds() ? 48 : 48.1875f);
}

TEST_P(OpsContract, GateUpOfAVeryNegativeGateIsZero) {
  const PackedWeight& w =
      rig_.Weight(1, 2, 2, {-100, 0, 1, 0}, WeightLayout::kGateUp);
  const Tensor y = rig_.Act({1, 1});

  ops_.GateUp(rig_.Act({1, 2}, {100, 0}), w, y);

  EXPECT_EQ(rig_.Read(y)[0], 0);
}

// One row of weights and tokens that give the slices these sums, each the
// product of the two factors at its first column.
Floats SlicedProduct(Rig& rig, const Floats& x, const Floats& w) {
  const int64_t cols = 2 * x.size();
  Floats padded_x(cols, 0), padded_w(cols, 0);
  for (size_t i = 0; i < x.size(); ++i) {
    padded_x[2 * i] = x[i];
    padded_w[2 * i] = w[i];
  }
  const Tensor y = rig.F32({1, 1});
  rig.ops().MatMulSliced(rig.Act({1, cols}, padded_x),
                         rig.Weight(1, 1, cols, padded_w),
                         static_cast<int>(x.size()), y);
  return rig.Read(y);
}

TEST_P(OpsContract, MatMulSlicedAddsTheSlicesOfBothHalvesApart) {
  // (2^24 + 1) + (1 + 1); one after another would lose every 1.
  EXPECT_THAT(SlicedProduct(rig_, {k2To12, 1, 1, 1}, {k2To12, 1, 1, 1}),
              ElementsAre(k2To24 + 2));
}

TEST_P(OpsContract, MatMulSlicedAddsNeighboursFirst) {
  // (2^24 + 1) + (-2^24 + 1); 0 with 2 and 1 with 3 would give 2.
  EXPECT_THAT(
      SlicedProduct(rig_, {k2To12, 1, -k2To12, 1}, {k2To12, 1, k2To12, 1}),
      ElementsAre(1));
}

TEST_P(OpsContract, MatMulSlicedOfOneSliceIsMatMul) {
  const Floats x = Noise(1, 3 * 64);
  const PackedWeight& w = rig_.Weight(1, 5, 64, Noise(2, 5 * 64));
  const Tensor sliced = rig_.F32({3, 5}), whole = rig_.F32({3, 5});

  ops_.MatMulSliced(rig_.Act({3, 64}, x), w, 1, sliced);
  ops_.MatMul(rig_.Act({3, 64}, x), w, whole);

  EXPECT_EQ(rig_.Read(sliced), rig_.Read(whole));
}

TEST_P(OpsContractDeathTest, MatMulRefusesAnInputOfAnotherWidth) {
  const PackedWeight& w = rig_.Weight(1, 1, 2, {1, 2});
  const Tensor x = rig_.Act({1, 4}, {1, 2, 3, 4});
  const Tensor y = rig_.Act({1, 1});

  EXPECT_DEATH(ops_.MatMul(x, w, y), "IsWeight");
}

TEST_P(OpsContractDeathTest, MatMulRefusesAWeightOfGateAndUp) {
  const PackedWeight& w =
      rig_.Weight(1, 2, 2, {1, 2, 3, 4}, WeightLayout::kGateUp);
  const Tensor x = rig_.Act({1, 2}, {1, 2});
  const Tensor y = rig_.Act({1, 2});

  EXPECT_DEATH(ops_.MatMul(x, w, y), "kPlain");
}

TEST_P(OpsContractDeathTest, MatMulSlicedRefusesThreeSlices) {
  const PackedWeight& w = rig_.Weight(1, 1, 12, Floats(12, 1));
  const Tensor x = rig_.Act({1, 12}, Floats(12, 1));
  const Tensor y = rig_.F32({1, 1});

  EXPECT_DEATH(ops_.MatMulSliced(x, w, 3, y), "slices");
}

TEST_P(OpsContractDeathTest, MatMulSlicedRefusesSlicesOfOddWidth) {
  const PackedWeight& w = rig_.Weight(1, 1, 12, Floats(12, 1));
  const Tensor x = rig_.Act({1, 12}, Floats(12, 1));
  const Tensor y = rig_.F32({1, 1});

  EXPECT_DEATH(ops_.MatMulSliced(x, w, 4, y), "slices");
}

PHALANX_FOR_EVERY_BACKEND(OpsContract);
PHALANX_FOR_EVERY_BACKEND(OpsContractDeathTest);

}  // namespace
}  // namespace phalanx
