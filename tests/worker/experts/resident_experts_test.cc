#include "worker/experts/resident_experts.h"

#include <gtest/gtest.h>

namespace phalanx {
namespace {

TEST(ResidentExperts, ShowsTheLayersOwnStacksInOrder) {
  Weights weights;
  weights.layers.resize(2);
  ResidentExperts experts(weights);
  experts.Begin(1, {});

  const ExpertView view = experts.Wait(1);

  const auto& moe = std::get<MoeWeights>(weights.layers[1].feed_forward);
  EXPECT_EQ(view.gate_up, &moe.experts_gate_up);
  EXPECT_EQ(view.down, &moe.experts_down);
  EXPECT_EQ(view.places.data, nullptr);
}

}  // namespace
}  // namespace phalanx
