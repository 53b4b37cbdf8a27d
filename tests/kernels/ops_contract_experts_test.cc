// Route, ExpertsGateUp, ExpertsDown.

#include <cmath>

#include "tests/kernels/ops_contract.h"

namespace phalanx {
namespace {

using testing::ElementsAre;

constexpr float k2To12 = 4096;

// Logits whose exponentials are in the ratio 1 : 2 : 4 : 1.
Floats OneTwoFourOne() {
  const auto log2 = static_cast<float>(std::log(2.0));
  return {0, log2, 2 * log2, 0};
}

TEST_P(OpsContract, RouteTakesTheLargestLogitsInAscendingOrderOfExpert) {
  const Routing routing = rig_.NewRouting(2, 4, 2);

  ops_.Route(rig_.F32({2, 4}, {9, 1, 2, 8, -5, -1, -7, -2}), true, routing);

  EXPECT_THAT(rig_.ReadInts(routing.expert), ElementsAre(0, 3, 1, 3));
}

TEST_P(OpsContract, RouteGivesTiesToTheLowerExpert) {
  const Routing routing = rig_.NewRouting(2, 4, 2);

  ops_.Route(rig_.F32({2, 4}, {1, 5, 5, 5, 2, 2, 2, 3}), true, routing);

  EXPECT_THAT(rig_.ReadInts(routing.expert), ElementsAre(1, 2, 0, 3));
}

TEST_P(OpsContract, RouteWeighsBySoftmaxOverAllExperts) {
  const Routing routing = rig_.NewRouting(1, 4, 2);

  ops_.Route(rig_.F32({1, 4}, OneTwoFourOne()), /*renormalise=*/false, routing);

  ExpectNear(rig_.Read(routing.weight), {2 / 8.0, 4 / 8.0}, 32 * kF32Rounding);
}

TEST_P(OpsContract, RouteDividesByTheSumIfAskedToRenormalise) {
  const Routing routing = rig_.NewRouting(1, 4, 2);

  ops_.Route(rig_.F32({1, 4}, OneTwoFourOne()), /*renormalise=*/true, routing);

  ExpectNear(rig_.Read(routing.weight), {2 / 6.0, 4 / 6.0}, 32 * kF32Rounding);
}

TEST_P(OpsContract, RouteOfLargeLogitsDoesNotOverflow) {
  const Routing routing = rig_.NewRouting(1, 3, 2);

  ops_.Route(rig_.F32({1, 3}, {1000, -1000, 1000}), false, routing);

  ExpectNear(rig_.Read(routing.weight), {0.5, 0.5}, 32 * kF32Rounding);
}

TEST_P(OpsContract, RouteListsEntriesByExpertAndThenByToken) {
  const Routing routing = rig_.NewRouting(3, 3, 2);

  // Experts {0, 2}, {1, 2}, {0, 2}.
  ops_.Route(rig_.F32({3, 3}, {5, 0, 5, 0, 5, 5, 5, 0, 5}), true, routing);

  EXPECT_THAT(rig_.ReadInts(routing.offsets), ElementsAre(0, 2, 3, 6));
  EXPECT_THAT(rig_.ReadInts(routing.order), ElementsAre(0, 4, 2, 1, 3, 5));
}

TEST_P(OpsContract, ExpertsGateUpTakesEachTokenThroughItsExperts) {
  // Expert e: gate 64 x, whose SiLU is itself, and up (e + 1) x.
  const Floats w = {64, 0, 1, 0, 64, 0, 2, 0, 64, 0, 3, 0};
  const PackedWeight& weight = rig_.Weight(3, 2, 2, w, WeightLayout::kGateUp);
  const Routing routing = {
      rig_.I32({2, 2}, {0, 2, 1, 2}), rig_.Param({2, 2}, {1, 1, 1, 1}),
      rig_.I32({4}, {0, 1, 2, 4}), rig_.I32({4}, {0, 2, 1, 3})};
  const Tensor hidden = rig_.Act({4, 1});

  ops_.ExpertsGateUp(rig_.Act({2, 2}, {1, 0, 2, 0}), weight, routing, hidden);

  EXPECT_THAT(rig_.Read(hidden), ElementsAre(64, 192, 512, 768));
}

TEST_P(OpsContract, ExpertsGateUpFindsExpertsAtTheirPlaces) {
  // As above, but expert 2 lies in matrix 0, expert 0 in 3, expert 1 in 1;
  // matrix 2 is nobody's.
  const Floats w = {64, 0, 3, 0, 64, 0, 2, 0, 99, 0, 99, 0, 64, 0, 1, 0};
  const PackedWeight& weight = rig_.Weight(4, 2, 2, w, WeightLayout::kGateUp);
  const Routing routing = {
      rig_.I32({2, 2}, {0, 2, 1, 2}), rig_.Param({2, 2}, {1, 1, 1, 1}),
      rig_.I32({4}, {0, 1, 2, 4}), rig_.I32({4}, {0, 2, 1, 3}),
      rig_.I32({3}, {3, 1, 0})};
  const Tensor hidden = rig_.Act({4, 1});

  ops_.ExpertsGateUp(rig_.Act({2, 2}, {1, 0, 2, 0}), weight, routing, hidden);

  EXPECT_THAT(rig_.Read(hidden), ElementsAre(64, 192, 512, 768));
}

TEST_P(OpsContract, ExpertsGateUpTakesAsManyExpertsAsAConfigMayHave) {
  const PackedWeight& weight =
      rig_.Weight(1, 2, 2, {64, 0, 3, 0}, WeightLayout::kGateUp);
  const int32_t last = kMaxExperts - 1;
  Ints offsets(kMaxExperts + 1, 0);
  offsets.back() = 1;
  Ints places(kMaxExperts, -1);
  places.back() = 0;
  const Routing routing = {rig_.I32({1, 1}, {last}), rig_.Param({1, 1}, {1}),
                           rig_.I32({kMaxExperts + 1}, offsets),
                           rig_.I32({1}, {0}), rig_.I32({kMaxExperts}, places)};
  const Tensor hidden = rig_.Act({1, 1});

  ops_.ExpertsGateUp(rig_.Act({1, 2}, {1, 0}), weight, routing, hidden);

  EXPECT_THAT(rig_.Read(hidden), ElementsAre(192));
}

TEST_P(OpsContract, ExpertsDownSumsByExpertWhateverThePlaces) {
  if (!rig_.rounds()) GTEST_SKIP() << "the reference sums in double";
  // (2^24 + 1) - 2^24 loses the 1, in ascending order of expert alone.
  const PackedWeight& w = rig_.Weight(3, 1, 2, {1, 0, k2To12, 0, k2To12, 0});
  const PackedWeight& shared = rig_.Weight(1, 1, 2, {0, 0});
  const Routing routing = {rig_.I32({1, 3}, {0, 1, 2}),
                           rig_.Param({1, 3}, {1, 1, 1}),
                           rig_.I32({4}, {0, 1, 2, 3}),
                           rig_.I32({3}, {0, 1, 2}), rig_.I32({3}, {1, 0, 2})};
  const Tensor y = rig_.F32({1, 1});

  ops_.ExpertsDown(rig_.Act({3, 2}, {k2To12, 0, 1, 0, -k2To12, 0}), w, routing,
                   rig_.Act({1, 2}, {0, 0}), shared, rig_.Act({1, 1}, {0}), 1,
                   y);

  EXPECT_EQ(rig_.Read(y)[0], 0);
}

TEST_P(OpsContract, AnExpertWithoutATokenNeedsNoPlace) {
  PHALANX_SKIP_IF_MISSING(GetParam(), "ExpertsGateUp");
  const PackedWeight& weight =
      rig_.Weight(1, 2, 2, {64, 0, 3, 0}, WeightLayout::kGateUp);
  const Routing routing = {rig_.I32({1, 1}, {1}), rig_.Param({1, 1}, {1}),
                           rig_.I32({4}, {0, 0, 1, 1}), rig_.I32({1}, {0}),
                           rig_.I32({3}, {-1, 0, -1})};
  const Tensor hidden = rig_.Act({1, 1});

  ops_.ExpertsGateUp(rig_.Act({1, 2}, {1, 0}), weight, routing, hidden);

  EXPECT_THAT(rig_.Read(hidden), ElementsAre(192));
}

// One token, two experts of three and the shared one, whose outputs are the
// products hidden * weight given here; the gate's sigmoid is 1.
struct DownCase {
  Floats hidden, weights, routing_weight;
  float shared_hidden = 0, shared_weight = 0;
};

float Down(Rig& rig, const DownCase& c) {
  const PackedWeight& w =
      rig.Weight(3, 1, 2, {c.weights[0], 0, 99, 99, c.weights[1], 0});
  const PackedWeight& shared = rig.Weight(1, 1, 2, {c.shared_weight, 0});
  const Routing routing = {rig.I32({1, 2}, {0, 2}),
                           rig.Param({1, 2}, c.routing_weight),
                           rig.I32({4}, {0, 1, 1, 2}), rig.I32({2}, {0, 1})};
  const Tensor y = rig.F32({1, 1});
  rig.ops().ExpertsDown(rig.Act({2, 2}, {c.hidden[0], 0, c.hidden[1], 0}), w,
                        routing, rig.Act({1, 2}, {c.shared_hidden, 0}), shared,
                        rig.Act({1, 1}, {64}), /*slices=*/1, y);
  return rig.Read(y)[0];
}

TEST_P(OpsContract, ExpertsDownWeighsAndSumsRoutedAndSharedExperts) {
  EXPECT_EQ(Down(rig_, {{2, 3}, {5, 7}, {0.25f, 0.5f}, 11, 13}),
            2.5f + 10.5f + 143);
}

TEST_P(OpsContract, ExpertsDownNeverRoundsASingleExpert) {
  EXPECT_EQ(Down(rig_, {{1, 1 + 0x1p-7f}, {1, 1 + 0x1p-7f}, {0, 1}, 0, 0}),
            (1 + 0x1p-7f) * (1 + 0x1p-7f));
}

TEST_P(OpsContract, ExpertsDownPutsTheSharedExpertLast) {
  if (!rig_.rounds()) GTEST_SKIP() << "the reference sums in double";
  // (2^24 + 1) - 2^24: the 1 is lost. In any other order it is not.
  EXPECT_EQ(Down(rig_, {{k2To12, 1}, {k2To12, 1}, {1, 1}, k2To12, -k2To12}), 0);
}

TEST_P(OpsContract, ExpertsDownSumsRoutedExpertsInAscendingOrder) {
  if (!rig_.rounds()) GTEST_SKIP() << "the reference sums in double";
  // (2^24 + 1) - 2^24 loses the 1; descending, (-2^24 + 1) + 2^24 keeps it.
  const PackedWeight& w = rig_.Weight(3, 1, 2, {k2To12, 0, 1, 0, k2To12, 0});
  const PackedWeight& shared = rig_.Weight(1, 1, 2, {0, 0});
  const Routing routing = {
      rig_.I32({1, 3}, {0, 1, 2}), rig_.Param({1, 3}, {1, 1, 1}),
      rig_.I32({4}, {0, 1, 2, 3}), rig_.I32({3}, {0, 1, 2})};
  const Tensor y = rig_.F32({1, 1});

  ops_.ExpertsDown(rig_.Act({3, 2}, {k2To12, 0, 1, 0, -k2To12, 0}), w, routing,
                   rig_.Act({1, 2}, {0, 0}), shared, rig_.Act({1, 1}, {0}), 1,
                   y);

  EXPECT_EQ(rig_.Read(y)[0], 0);
}

TEST_P(OpsContract, ExpertsDownGatesTheSharedExpertBySigmoid) {
  const PackedWeight& w = rig_.Weight(1, 1, 2, {0, 0});
  const PackedWeight& shared = rig_.Weight(1, 1, 2, {1, 0});
  const Routing routing = {rig_.I32({2, 1}, {0, 0}), rig_.Param({2, 1}, {1, 1}),
                           rig_.I32({2}, {0, 2}), rig_.I32({2}, {0, 1})};
  const Tensor y = rig_.F32({2, 1});

  ops_.ExpertsDown(rig_.Act({2, 2}, {0, 0, 0, 0}), w, routing,
                   rig_.Act({2, 2}, {1, 0, 1, 0}), shared,
                   rig_.Act({2, 1}, {0, -1}), 1, y);

  ExpectNear(rig_.Read(y), {0.5, 1 / (1 + std::exp(1.0))}, 32 * kF32Rounding);
}

TEST_P(OpsContract, ExpertsDownAddsItsSlicesByTheTreeOfNeighbours) {
  // Slices 2^24, 1, -2^24, 1 of one expert; see MatMulSliced.
  const PackedWeight& w =
      rig_.Weight(1, 1, 8, {k2To12, 0, 1, 0, k2To12, 0, 1, 0});
  const PackedWeight& shared = rig_.Weight(1, 1, 8, Floats(8, 0));
  const Routing routing = {rig_.I32({1, 1}, {0}), rig_.Param({1, 1}, {1}),
                           rig_.I32({2}, {0, 1}), rig_.I32({1}, {0})};
  const Tensor y = rig_.F32({1, 1});

  ops_.ExpertsDown(rig_.Act({1, 8}, {k2To12, 0, 1, 0, -k2To12, 0, 1, 0}), w,
                   routing, rig_.Act({1, 8}, Floats(8, 0)), shared,
                   rig_.Act({1, 1}, {0}), /*slices=*/4, y);

  EXPECT_THAT(rig_.Read(y), ElementsAre(1));
}

TEST_P(OpsContractDeathTest, RouteRefusesMoreChoicesThanExperts) {
  const Tensor logits = rig_.F32({1, 2}, {1, 2});
  const Routing routing = rig_.NewRouting(1, 2, 3);

  EXPECT_DEATH(ops_.Route(logits, true, routing), "K <= E");
}

TEST_P(OpsContractDeathTest, ExpertsGateUpRefusesARoutingOfOtherExperts) {
  const PackedWeight& w =
      rig_.Weight(3, 2, 2, Floats(12, 1), WeightLayout::kGateUp);
  const Tensor x = rig_.Act({1, 2}, {1, 2});
  const Tensor hidden = rig_.Act({1, 1});

  EXPECT_DEATH(ops_.ExpertsGateUp(x, w, rig_.NewRouting(1, 2, 1), hidden),
               "routing.offsets");
}

PHALANX_FOR_EVERY_BACKEND(OpsContract);
PHALANX_FOR_EVERY_BACKEND(OpsContractDeathTest);

}  // namespace
}  // namespace phalanx
