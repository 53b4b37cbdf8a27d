// Rope, StoreKv, PagedAttention.

#include <cmath>
#include <limits>

#include "tests/kernels/ops_contract.h"
#include "tests/kernels/sequence_set.h"

namespace phalanx {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::ElementsAreArray;

TEST_P(OpsContract, RopeOfAKnownPairIsWhatTheSpecificationSays) {
  const Tensor x = rig_.Act({1, 1, 2}, {1, 2});

  ops_.Rope(rig_.I32({1}, {5}), rig_.Param({1}, {1}), x);

  ExpectNear(rig_.Read(x), {2.20151073, -0.3915999}, Slack(rig_));
}

TEST_P(OpsContract, RopeTurnsHalvesOfTheFirstElementsAgainstEachOther) {
  const Tensor x = rig_.Act({1, 1, 6}, {1, 2, 3, 4, 5, 6});
  const auto half_turn = static_cast<float>(M_PI);

  ops_.Rope(rig_.I32({1}, {1}), rig_.Param({2}, {half_turn, 0}), x);

  ExpectNear(rig_.Read(x), {-1, 2, -3, 4, 5, 6}, Slack(rig_));
}

TEST_P(OpsContract, RopeLeavesTheOtherElementsAlone) {
  const Tensor x = rig_.Act({1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});

  ops_.Rope(rig_.I32({1}, {7}), rig_.Param({1}, {1}), x);

  const Floats y = rig_.Read(x);
  EXPECT_THAT((Floats{y[2], y[3], y[6], y[7]}), ElementsAre(3, 4, 7, 8));
}

TEST_P(OpsContract, RopeTurnsEachRowByItsOwnPosition) {
  const Tensor x = rig_.Act({2, 1, 2}, {1, 0, 1, 0});

  ops_.Rope(rig_.I32({2}, {0, 3}), rig_.Param({1}, {1}), x);

  ExpectNear(rig_.Read(x), {1, 0, std::cos(3.0), std::sin(3.0)}, Slack(rig_));
}

TEST_P(OpsContract, RopeRoundsTheAngleToF32AsTheReferenceDoes) {
  const Tensor x = rig_.Act({1, 1, 2}, {1, 0});
  const float inv_freq = 0.60429639f;
  const float angle = 1009999 * inv_freq;

  ops_.Rope(rig_.I32({1}, {1009999}), rig_.Param({1}, {inv_freq}), x);

  ExpectNear(rig_.Read(x), {std::cos(double{angle}), std::sin(double{angle})},
             Slack(rig_));
}

TEST_P(OpsContract, StoreKvWritesEachTokenToItsPlaceAndNothingElse) {
  PagedCache want(3, 2, 4);
  const Tensor keys = rig_.Act(want.dims(), Floats(want.keys.size(), -1));
  const Tensor values = rig_.Act(want.dims(), Floats(want.keys.size(), -2));
  const Floats k = Noise(1, 2 * 2 * 4), v = Noise(2, 2 * 2 * 4);
  const Ints places = {2 * 64 + 5, 0 * 64 + 63};
  want.keys.assign(want.keys.size(), -1);
  want.values.assign(want.values.size(), -2);
  for (int64_t t = 0; t < 2; ++t) {
    for (int64_t h = 0; h < 2; ++h) {
      const int64_t at = want.At({0, 1, 2}, places[t], h);
      std::copy_n(k.begin() + (t * 2 + h) * 4, 4, want.keys.begin() + at);
      std::copy_n(v.begin() + (t * 2 + h) * 4, 4, want.values.begin() + at);
    }
  }

  ops_.StoreKv(rig_.Act({2, 2, 4}, k), rig_.Act({2, 2, 4}, v),
               rig_.I32({2}, places), keys, values);

  EXPECT_THAT(rig_.Read(keys), ElementsAreArray(want.keys));
  EXPECT_THAT(rig_.Read(values), ElementsAreArray(want.values));
}

// One sequence with D = 2 whose keys and values are given for each position
// and key head; rows of q stand at the last positions.
Floats Attend(Rig& rig, int64_t Nq, int64_t Nk, const Floats& q,
              const Floats& keys, const Floats& values, float scale) {
  const int64_t D = 2, T = q.size() / (Nq * D), count = keys.size() / (Nk * D);
  const SequenceSet set(rig, {{T, count - T}});
  PagedCache cache(set.block_count, Nk, D);
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t h = 0; h < Nk; ++h) {
      const int64_t at = cache.At(set.blocks[0], i, h);
      std::copy_n(keys.begin() + (i * Nk + h) * D, D, cache.keys.begin() + at);
      std::copy_n(values.begin() + (i * Nk + h) * D, D,
                  cache.values.begin() + at);
    }
  }
  const Tensor y = rig.F32({T, Nq, D});
  rig.ops().PagedAttention(
      rig.Act({T, Nq, D}, q), rig.Act(cache.dims(), cache.keys),
      rig.Act(cache.dims(), cache.values), set.sequences, scale, y);
  return rig.Read(y);
}

TEST_P(OpsContract, PagedAttentionToASingleTokenIsItsValue) {
  EXPECT_THAT(Attend(rig_, 1, 1, {3, 1}, {1, 2}, {5, -7}, 0.5f),
              ElementsAre(5, -7));
}

TEST_P(OpsContract, PagedAttentionWeighsValuesBySoftmaxOfScaledScores) {
  // Scores 0 and 2 * 3 * 0.5 = 3.
  const double p = 1 / (1 + std::exp(-3.0));

  ExpectNear(Attend(rig_, 1, 1, {2, 0}, {0, 1, 3, 1}, {1, 0, 0, 1}, 0.5f),
             {1 - p, p}, Slack(rig_));
}

TEST_P(OpsContract, PagedAttentionSeesThePastAndItselfButNoLaterToken) {
  // Equal scores, so each row is the mean of what it sees: one token of past.
  const Floats y = Attend(rig_, 1, 1, {0, 0, 0, 0, 0, 0}, Floats(8, 1),
                          {1, 0, 3, 0, 8, 0, 0, 4}, 1);

  ExpectNear(y, {2, 0, 4, 0, 3, 1}, Slack(rig_));
}

TEST_P(OpsContract, PagedAttentionLetsNeighbouringQueryHeadsShareAKeyHead) {
  EXPECT_THAT(Attend(rig_, 4, 2, Floats(8, 1), {1, 1, 1, 1}, {1, 2, 3, 4}, 1),
              ElementsAre(1, 2, 1, 2, 3, 4, 3, 4));
}

TEST_P(OpsContract, PagedAttentionOfVeryLargeScoresDoesNotOverflow) {
  EXPECT_THAT(Attend(rig_, 1, 1, {1024, 0}, {-1024, 0, 1024, 0, 512, 0},
                     {1, 0, 0, 1, 2, 2}, 1),
              ElementsAre(0, 1));
}

TEST_P(OpsContract, PagedAttentionMergesSegmentsAndBlocksOfALongPast) {
  // Equal scores over two and a half segments: the mean of 0, 1, 2, ... mod 8.
  constexpr int64_t kCount = 640;
  Floats values(2 * kCount, 1);
  for (int64_t i = 0; i < kCount; ++i)
    values[2 * i] = static_cast<float>(i % 8);

  const Floats y = Attend(rig_, 1, 1, {0, 0}, Floats(2 * kCount, 1), values, 1);

  ExpectNear(y, {3.5, 1}, kCount * kF32Rounding);
}

TEST_P(OpsContract, PagedAttentionFindsALargeScoreInAnySegment) {
  constexpr int64_t kCount = 600;
  for (int64_t place : {0, 63, 64, 255, 256, 300, 599}) {
    SCOPED_TRACE(place);
    Floats keys(2 * kCount, 0), values(2 * kCount, 0);
    keys[2 * place] = 100;
    values[2 * place] = 1;

    EXPECT_NEAR(Attend(rig_, 1, 1, {1, 0}, keys, values, 1)[0], 1, 1e-6);
  }
}

TEST_P(OpsContract, PagedAttentionRoundsProbabilitiesForTheValuesOnly) {
  // Both scores of the running maximum's block: exp(0) = 1 and exp(-1). Their
  // sum is not rounded, so the mean of equal values is off by the rounding.
  const double p = std::exp(-1.0);
  const double held = rig_.rounds() ? RoundToBf16(static_cast<float>(p)) : p;

  const Floats y = Attend(rig_, 1, 1, {1, 0}, {0, 0, 1, 0}, {1, 1, 1, 1}, 1);

  EXPECT_NEAR(y[0], (1 + held) / (1 + p), 16 * kF32Rounding);
}

TEST_P(OpsContractDeathTest, RopeRefusesMoreAnglesThanPairs) {
  const Tensor x = rig_.Act({1, 1, 2}, {1, 2});
  const Tensor inv_freq = rig_.Param({2}, {1, 1});

  EXPECT_DEATH(ops_.Rope(rig_.I32({1}, {0}), inv_freq, x), "inv_freq");
}

TEST_P(OpsContractDeathTest, StoreKvRefusesBlocksOfAnotherSize) {
  const Tensor k = rig_.Act({1, 1, 2}, {1, 2});
  const Tensor cache = rig_.Act({1, 1, 32, 2}, Floats(64, 0));

  EXPECT_DEATH(ops_.StoreKv(k, k, rig_.I32({1}, {0}), cache, cache), "keys");
}

PHALANX_FOR_EVERY_BACKEND(OpsContract);
PHALANX_FOR_EVERY_BACKEND(OpsContractDeathTest);

}  // namespace
}  // namespace phalanx
