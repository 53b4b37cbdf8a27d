// RmsNorm, GatedRmsNorm, L2Norm, Add, MulSigmoid.

#include <cmath>

#include "tests/kernels/ops_contract.h"

namespace phalanx {
namespace {

using testing::Each;
using testing::ElementsAre;

constexpr float kEps = 1e-6f;

TEST_P(OpsContract, RmsNormOfAKnownRowIsWhatTheSpecificationSays) {
  const Tensor y = rig_.Act({1, 4});

  ops_.RmsNorm(rig_.Act({1, 4}, {1, -2, 3, -4}),
               rig_.Param({4}, {1.1f, 0.8f, 1, 1.5f}), kEps, y);

  ExpectNear(rig_.Read(y), {0.40166318, -0.58423736, 1.09544504, -2.19089008},
             Slack(rig_));
}

TEST_P(OpsContract, RmsNormTakesEachHeadByItself) {
  const Tensor y = rig_.Act({1, 2, 2});

  ops_.RmsNorm(rig_.Act({1, 2, 2}, {1, 1, 8, 8}), rig_.Param({2}, {1, 2}), 0,
               y);

  ExpectNear(rig_.Read(y), {1, 2, 1, 2}, Slack(rig_));
}

TEST_P(OpsContract, RmsNormAddsEpsToTheMean) {
  const Tensor y = rig_.Act({1, 2});

  ops_.RmsNorm(rig_.Act({1, 2}, {1, 1}), rig_.Param({2}, {1, 1}), /*eps=*/3, y);

  ExpectNear(rig_.Read(y), {0.5, 0.5}, Slack(rig_));
}

TEST_P(OpsContract, RmsNormOfARowOfZerosIsZero) {
  const Tensor y = rig_.Act({1, 4});

  ops_.RmsNorm(rig_.Act({1, 4}, {0, 0, 0, 0}), rig_.Param({4}, {1, 1, 1, 1}),
               kEps, y);

  EXPECT_THAT(rig_.Read(y), Each(0));
}

TEST_P(OpsContract, RmsNormMayWriteOverItsInput) {
  const Floats x = Noise(1, 3 * 33);
  const Tensor w = rig_.Param({33}, Noise(2, 33));
  const Tensor apart = rig_.Act({3, 33}), over = rig_.Act({3, 33}, x);

  ops_.RmsNorm(rig_.Act({3, 33}, x), w, kEps, apart);
  ops_.RmsNorm(over, w, kEps, over);

  EXPECT_EQ(rig_.Read(over), rig_.Read(apart));
}

TEST_P(OpsContract, RmsNormOfHeadsMayWriteOverABlockOfColumns) {
  const Tensor fused = rig_.Act({2, 5}, {3, 3, 7, 7, 9, 4, 4, 7, 7, 9});
  const Tensor heads = Heads(SplitColumns<2>(fused, {4, 1})[0], 2);

  ops_.RmsNorm(heads, rig_.Param({2}, {1, 2}), 0, heads);

  ExpectNear(rig_.Read(fused), {1, 2, 1, 2, 9, 1, 2, 1, 2, 9}, Slack(rig_));
}

TEST_P(OpsContract, GatedRmsNormOfAKnownRowIsWhatTheSpecificationSays) {
  const Tensor y = rig_.Act({1, 1, 4});

  ops_.GatedRmsNorm(rig_.F32({1, 1, 4}, {1, -2, 3, -4}),
                    rig_.Act({1, 1, 4}, {0.5f, -1, 2, 0}),
                    rig_.Param({4}, {1, 0.9f, 1.1f, 1}), kEps, y);

  ExpectNear(rig_.Read(y), {0.113645, 0.17676633, 2.12270254, 0}, Slack(rig_));
}

TEST_P(OpsContract, GatedRmsNormTakesEachHeadByItself) {
  const Tensor y = rig_.Act({1, 2, 2});

  ops_.GatedRmsNorm(rig_.F32({1, 2, 2}, {1, 1, 8, -8}),
                    rig_.Act({1, 2, 2}, {64, 64, 64, 64}),
                    rig_.Param({2}, {1, 1}), 0, y);

  ExpectNear(rig_.Read(y), {64, 64, 64, -64}, Slack(rig_));
}

TEST_P(OpsContract, L2NormOfAKnownRowHasTheLengthOfTheScale) {
  const Tensor y = rig_.F32({1, 2, 2});

  ops_.L2Norm(rig_.F32({1, 2, 2}, {3, 4, 0, -2}), /*scale=*/10, y);

  ExpectNear(rig_.Read(y), {6, 8, 0, -10}, 4e-7);
}

TEST_P(OpsContract, L2NormAddsEpsToTheSumOfSquares) {
  const Tensor y = rig_.F32({1, 1, 4});

  ops_.L2Norm(rig_.F32({1, 1, 4}, Floats(4, 0.5e-3f)), 1, y);

  ExpectNear(rig_.Read(y), std::vector<double>(4, std::sqrt(0.125)),
             32 * kF32Rounding);
}

TEST_P(OpsContract, L2NormMayWriteOverItsInput) {
  const Tensor x = rig_.F32({1, 1, 2}, {3, 4});

  ops_.L2Norm(x, 1, x);

  ExpectNear(rig_.Read(x), {0.6, 0.8}, 32 * kF32Rounding);
}

TEST_P(OpsContract, AddRoundsTheSumOnce) {
  const Tensor y = rig_.Act({1, 3});

  // 257 lies between the bf16 numbers 256 and 258; ties go to even.
  ops_.Add(rig_.Act({1, 3}, {1, 256, 258}), rig_.Act({1, 3}, {2, 1, 1}), y);

  if (rig_.rounds()) {
    EXPECT_THAT(rig_.Read(y), ElementsAre(3, 256, 260));
  } else {
    EXPECT_THAT(rig_.Read(y), ElementsAre(3, 257, 259));
  }
}

TEST_P(OpsContract, AddMayWriteOverItsFirstTerm) {
  const Tensor a = rig_.Act({1, 2}, {1, 2});

  ops_.Add(a, rig_.Act({1, 2}, {10, 20}), a);

  EXPECT_THAT(rig_.Read(a), ElementsAre(11, 22));
}

TEST_P(OpsContract, AddMayWriteOverItsSecondTerm) {
  const Tensor b = rig_.Act({1, 2}, {1, 2});

  ops_.Add(rig_.Act({1, 2}, {10, 20}), b, b);

  EXPECT_THAT(rig_.Read(b), ElementsAre(11, 22));
}

TEST_P(OpsContract, RoundGivesTheNearestActivation) {
  const Tensor y = rig_.Act({2, 2});

  // 257 lies between the bf16 numbers 256 and 258; ties go to even.
  ops_.Round(rig_.F32({2, 2}, {257, 258.5f, -259, 0.5f}), y);

  if (rig_.rounds()) {
    EXPECT_THAT(rig_.Read(y), ElementsAre(256, 258, -260, 0.5f));
  } else {
    EXPECT_THAT(rig_.Read(y), ElementsAre(257, 258.5f, -259, 0.5f));
  }
}

TEST_P(OpsContract, MulSigmoidOfAKnownRowIsWhatTheFormulaSays) {
  const Tensor y = rig_.Act({1, 3});

  ops_.MulSigmoid(rig_.F32({1, 3}, {2, 3, -1}), rig_.Act({1, 3}, {0, 1, -2}),
                  y);

  ExpectNear(rig_.Read(y),
             {1, 3 / (1 + std::exp(-1.0)), -1 / (1 + std::exp(2.0))},
             Slack(rig_));
}

TEST_P(OpsContract, MulSigmoidOfExtremeGatesIsZeroAndTheInput) {
  const Tensor y = rig_.Act({1, 2});

  ops_.MulSigmoid(rig_.F32({1, 2}, {2, 2}), rig_.Act({1, 2}, {-1000, 1000}), y);

  EXPECT_THAT(rig_.Read(y), ElementsAre(0, 2));
}

TEST_P(OpsContractDeathTest, RmsNormRefusesAWeightOfAnotherWidth) {
  const Tensor x = rig_.Act({1, 2}, {1, 2});
  const Tensor w = rig_.Param({3}, {1, 2, 3});

  EXPECT_DEATH(ops_.RmsNorm(x, w, kEps, x), "CHECK failed: .*w, ");
}

TEST_P(OpsContractDeathTest, L2NormRefusesAMatrixWithoutHeads) {
  const Tensor x = rig_.F32({1, 2}, {1, 2});

  EXPECT_DEATH(ops_.L2Norm(x, 1, x), "CHECK failed: .*x, ");
}

TEST_P(OpsContractDeathTest, AddRefusesTermsOfDifferentShapes) {
  const Tensor a = rig_.Act({1, 2}, {1, 2});
  const Tensor b = rig_.Act({2, 1}, {1, 2});

  EXPECT_DEATH(ops_.Add(a, b, a), "CHECK failed: .*b, ");
}

TEST_P(OpsContractDeathTest, AddRefusesRowsThatOverlap) {
  Tensor a = rig_.Act({2, 2}, {1, 2, 3, 4});
  a.row_stride = 1;

  EXPECT_DEATH(ops_.Add(a, a, a), "CHECK failed: .*a, ");
}

PHALANX_FOR_EVERY_BACKEND(OpsContract);
PHALANX_FOR_EVERY_BACKEND(OpsContractDeathTest);

}  // namespace
}  // namespace phalanx
