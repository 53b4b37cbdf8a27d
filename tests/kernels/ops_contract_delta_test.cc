// ConvSilu, GdnGates, GatedDelta.

#include <cmath>
#include <limits>

#include "tests/kernels/ops_contract.h"
#include "tests/kernels/sequence_set.h"

namespace phalanx {
namespace {

using testing::Each;
using testing::ElementsAre;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

double Silu(double x) { return x / (1 + std::exp(-x)); }

TEST_P(OpsContract, ConvSiluOfAKnownRowIsWhatTheSpecificationSays) {
  const SequenceSet set(rig_, {{3, 0}});
  const Tensor state = rig_.Act({set.slot_count, 3, 1}, Floats(6, 0));
  const Tensor y = rig_.F32({3, 1});

  ops_.ConvSilu(rig_.Act({3, 1}, {1, 2, 3}),
                rig_.Param({1, 4}, {0.1f, 0.2f, 0.3f, 0.4f}), set.sequences,
                state, y);

  ExpectNear(rig_.Read(y), {0.23947506, 0.82528612, 1.76159416},
             32 * kF32Rounding);
}

// A convolution of width 3 over one channel; returns y and leaves the slots,
// two numbers each, in `state`.
Floats Conv(Rig& rig, const std::vector<SequenceSpec>& specs, const Floats& x,
            Floats& state) {
  const SequenceSet set(rig, specs);
  const Tensor slots = rig.Act({set.slot_count, 2, 1}, state);
  const Tensor y = rig.F32({set.rows, 1});
  rig.ops().ConvSilu(rig.Act({set.rows, 1}, x), rig.Param({1, 3}, {100, 10, 1}),
                     set.sequences, slots, y);
  state = rig.Read(slots);
  return rig.Read(y);
}

TEST_P(OpsContract, ConvSiluTakesEarlierRowsFromTheState) {
  Floats state = {kNan, kNan, 1, 2};

  const Floats y = Conv(rig_, {{1, 9}}, {3}, state);

  ExpectNear(y, {Silu(123)}, 32 * kF32Rounding);
}

TEST_P(OpsContract, ConvSiluCountsTheStateOfAFreshSequenceAsZeros) {
  Floats state = {kNan, kNan, kNan, kNan};

  const Floats y = Conv(rig_, {{2, 0}}, {3, 4}, state);

  ExpectNear(y, {Silu(3), Silu(34)}, 32 * kF32Rounding);
}

TEST_P(OpsContract, ConvSiluLeavesTheLastRawRowsInTheStateOldestFirst) {
  Floats state = {7, 7, 1, 2};

  Conv(rig_, {{3, 9}}, {3, 4, 5}, state);

  EXPECT_THAT(state, ElementsAre(7, 7, 4, 5));
}

TEST_P(OpsContract, ConvSiluOfFewRowsKeepsTheYoungestOfTheState) {
  Floats state = {7, 7, 1, 2};

  Conv(rig_, {{1, 9}}, {3}, state);

  EXPECT_THAT(state, ElementsAre(7, 7, 2, 3));
}

TEST_P(OpsContract, ConvSiluOfAShortFreshSequenceLeavesZerosBeforeItsRows) {
  Floats state = {7, 7, kNan, kNan};

  Conv(rig_, {{1, 0}}, {3}, state);

  EXPECT_THAT(state, ElementsAre(7, 7, 0, 3));
}

TEST_P(OpsContract, ConvSiluKeepsSequencesOfAStepApart) {
  // Slots are given from the last one down: 2 and 1.
  Floats state = {7, 7, 1, 2, kNan, kNan};

  const Floats y = Conv(rig_, {{2, 0}, {1, 5}}, {3, 4, 5}, state);

  ExpectNear(y, {Silu(3), Silu(34), Silu(125)}, 32 * kF32Rounding);
  EXPECT_THAT(state, ElementsAre(7, 7, 2, 5, 3, 4));
}

TEST_P(OpsContract, GdnGatesOfKnownInputsAreWhatTheSpecificationSays) {
  const Tensor g = rig_.F32({1, 1}), beta = rig_.F32({1, 1});

  ops_.GdnGates(rig_.Act({1, 1}, {0.3f}), rig_.Act({1, 1}, {0.7f}),
                rig_.Param({1}, {0.5f}), rig_.Param({1}, {-0.2f}), g, beta);

  ExpectNear(rig_.Read(g), {-1.22730261}, Slack(rig_));
  ExpectNear(rig_.Read(beta), {0.66818777}, Slack(rig_));
}

TEST_P(OpsContract, GdnGatesTakeSoftplusAboveTwentyAsTheInput) {
  const Tensor g = rig_.F32({1, 2}), beta = rig_.F32({1, 2});

  ops_.GdnGates(rig_.Act({1, 2}, {100, 19}), rig_.Act({1, 2}, {0, 0}),
                rig_.Param({2}, {0, 0}), rig_.Param({2}, {0, 2}), g, beta);

  EXPECT_THAT(rig_.Read(g), ElementsAre(-100, -21));
}

TEST_P(OpsContract, GdnGatesOfVeryNegativeInputsAreTinyAndNeverPositive) {
  const Tensor g = rig_.F32({1, 1}), beta = rig_.F32({1, 1});

  ops_.GdnGates(rig_.Act({1, 1}, {-16}), rig_.Act({1, 1}, {-16}),
                rig_.Param({1}, {0}), rig_.Param({1}, {0}), g, beta);

  const double tiny = std::exp(-16.0);
  EXPECT_NEAR(rig_.Read(g)[0], -std::log1p(tiny), 64 * kF32Rounding * tiny);
  EXPECT_NEAR(rig_.Read(beta)[0], tiny / (1 + tiny), 64 * kF32Rounding * tiny);
}

TEST_P(OpsContract, GatedDeltaOfAKnownRunIsWhatTheSpecificationSays) {
  const SequenceSet set(rig_, {{3, 0}});
  const Tensor q = rig_.F32({3, 1, 2}, {1, 0, 0.5f, -1, 2, 1});
  const Tensor k = rig_.F32({3, 1, 2}, {1, 1, 0, 2, -1, 0.5f});
  const Tensor v = rig_.F32({3, 1, 2}, {1, 2, 3, -1, 0.5f, 0.25f});
  const Tensor state = rig_.F32({set.slot_count, 1, 2, 2}, Floats(8, kNan));
  const Tensor y = rig_.F32({3, 1, 2});

  ops_.L2Norm(q, std::sqrt(0.5f), q);
  ops_.L2Norm(k, 1, k);
  ops_.GatedDelta(q, k, v, rig_.F32({3, 1}, {-0.1f, -0.5f, -0.2f}),
                  rig_.F32({3, 1}, {0.5f, 0.9f, 0.25f}), set.sequences, state,
                  y);

  ExpectNear(rig_.Read(y),
             {0.24999981, 0.49999963, -1.65337935, 0.67770905, 0.85163667,
              -0.09294618},
             64 * kF32Rounding);
  // The specification's S is [Dk, Dv]; ours is its transpose, in slot 1.
  ExpectNear(rig_.Read(Rows(state, 1, 1)),
             {0.25146497, 2.19018194, 0.15483507, -0.60359179},
             64 * kF32Rounding);
}

// One token with Dk = Dv = 1, k = q = 1: S becomes d S + beta (v - d S) with
// d = exp(g), and y is S. `state` holds the slots.
Floats Delta(Rig& rig, const std::vector<SequenceSpec>& specs, const Floats& v,
             const Floats& g, const Floats& beta, Floats& state) {
  const SequenceSet set(rig, specs);
  const int64_t T = set.rows, Nv = v.size() / T;
  const Tensor slots = rig.F32({set.slot_count, Nv, 1, 1}, state);
  const Tensor one = rig.F32({T, 1, 1}, Floats(T, 1));
  const Tensor y = rig.F32({T, Nv, 1});
  rig.ops().GatedDelta(one, one, rig.F32({T, Nv, 1}, v), rig.F32({T, Nv}, g),
                       rig.F32({T, Nv}, beta), set.sequences, slots, y);
  state = rig.Read(slots);
  return rig.Read(y);
}

TEST_P(OpsContract, GatedDeltaForgetsBeforeItWrites) {
  Floats state = {7, 4};
  const auto half = static_cast<float>(std::log(0.5));

  const Floats y = Delta(rig_, {{1, 3}}, {6}, {half}, {0.25f}, state);

  // 4 decays to 2; then a quarter of the way from 2 to 6.
  ExpectNear(y, {3}, 32 * kF32Rounding);
  ExpectNear(state, {7, 3}, 32 * kF32Rounding);
}

TEST_P(OpsContract, GatedDeltaCountsTheStateOfAFreshSequenceAsZeros) {
  Floats state = {7, kNan};

  const Floats y = Delta(rig_, {{1, 0}}, {6}, {0}, {0.5f}, state);

  EXPECT_THAT(y, ElementsAre(3));
  EXPECT_THAT(state, ElementsAre(7, 3));
}

TEST_P(OpsContract, GatedDeltaTakesRowsOfASequenceInOrder) {
  Floats state = {7, kNan};

  const Floats y =
      Delta(rig_, {{3, 0}}, {8, 8, 0}, {0, 0, 0}, {0.5f, 0.5f, 0.5f}, state);

  EXPECT_THAT(y, ElementsAre(4, 6, 3));
}

TEST_P(OpsContract, GatedDeltaKeepsSequencesOfAStepApart) {
  // Slots are given from the last one down: 2 and 1.
  Floats state = {7, 100, kNan};

  const Floats y = Delta(rig_, {{2, 0}, {1, 5}}, {8, 8, 0}, {0, 0, 0},
                         {0.5f, 0.5f, 0.5f}, state);

  EXPECT_THAT(y, ElementsAre(4, 6, 50));
  EXPECT_THAT(state, ElementsAre(7, 50, 6));
}

TEST_P(OpsContract, GatedDeltaKeepsHeadsApart) {
  Floats state = {7, 7, 2, 4};

  const Floats y = Delta(rig_, {{1, 1}}, {4, 8}, {0, 0}, {0.5f, 0.25f}, state);

  EXPECT_THAT(y, ElementsAre(3, 5));
}

TEST_P(OpsContract, GatedDeltaLetsNeighbouringValueHeadsShareAKeyHead) {
  const SequenceSet set(rig_, {{1, 0}});
  // Key head 0 is (1, 0), key head 1 is (0, 1); q sees only what they wrote.
  const Tensor q = rig_.F32({1, 2, 2}, {1, 0, 0, 1});
  const Tensor state = rig_.F32({set.slot_count, 4, 1, 2}, Floats(16, 0));
  const Tensor y = rig_.F32({1, 4, 1});

  ops_.GatedDelta(q, q, rig_.F32({1, 4, 1}, {1, 2, 3, 4}),
                  rig_.F32({1, 4}, {0, 0, 0, 0}),
                  rig_.F32({1, 4}, {1, 1, 1, 1}), set.sequences, state, y);

  EXPECT_THAT(rig_.Read(y), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(rig_.Read(Rows(state, 1, 1)),
              ElementsAre(1, 0, 2, 0, 0, 3, 0, 4));
}

TEST_P(OpsContractDeathTest, ConvSiluRefusesAStateOfAnotherWidth) {
  const SequenceSet set(rig_, {{1, 0}});
  const Tensor x = rig_.Act({1, 1}, {1});
  const Tensor w = rig_.Param({1, 4}, {1, 1, 1, 1});
  const Tensor state = rig_.Act({set.slot_count, 4, 1}, Floats(8, 0));
  const Tensor y = rig_.F32({1, 1});

  EXPECT_DEATH(ops_.ConvSilu(x, w, set.sequences, state, y), "state");
}

TEST_P(OpsContractDeathTest, GatedDeltaRefusesValueHeadsThatDoNotDivide) {
  const SequenceSet set(rig_, {{1, 0}});
  const Tensor q = rig_.F32({1, 2, 1}, {1, 1});
  const Tensor v = rig_.F32({1, 3, 1}, {1, 1, 1});
  const Tensor g = rig_.F32({1, 3}, {0, 0, 0});
  const Tensor state = rig_.F32({2, 3, 1, 1}, Floats(6, 0));

  EXPECT_DEATH(ops_.GatedDelta(q, q, v, g, g, set.sequences, state, v),
               "Nv % Nk");
}

PHALANX_FOR_EVERY_BACKEND(OpsContract);
PHALANX_FOR_EVERY_BACKEND(OpsContractDeathTest);

}  // namespace
}  // namespace phalanx
