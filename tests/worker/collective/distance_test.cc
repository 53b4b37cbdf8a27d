#include "worker/collective/distance.h"

#include <gtest/gtest.h>

namespace phalanx {
namespace {

constexpr double kNearSeconds = 80e-9;
constexpr double kFarSeconds = 250e-9;

Distance After(int votes, double seconds) {
  Distance distance;
  for (int i = 0; i < votes; ++i) distance.Vote(seconds);
  return distance;
}

TEST(Distance, IsNearAtFirst) { EXPECT_FALSE(Distance().far()); }

TEST(Distance, IsFarWhenFourLoadsWereSlow) {
  EXPECT_FALSE(After(3, kFarSeconds).far());
  EXPECT_TRUE(After(4, kFarSeconds).far());
}

TEST(Distance, DoesNotChangeForSingleSlowLoads) {
  Distance distance;
  for (int i = 0; i < 100; ++i) distance.Vote(i % 3 == 0 ? 1 : kNearSeconds);

  EXPECT_FALSE(distance.far());
}

TEST(Distance, IsNearAgainWhenLinesComeFast) {
  Distance distance = After(1000, kFarSeconds);

  for (int i = 0; i < 7; ++i) distance.Vote(kNearSeconds);
  EXPECT_TRUE(distance.far());
  distance.Vote(kNearSeconds);
  EXPECT_FALSE(distance.far());
}

}  // namespace
}  // namespace phalanx
