#include "common/units.h"

#include <gtest/gtest.h>

#include "common/clock.h"

namespace phalanx {
namespace {

TEST(Units, CeilDivideRoundsUp) {
  EXPECT_EQ(CeilDivide(0, 64), 0);
  EXPECT_EQ(CeilDivide(1, 64), 1);
  EXPECT_EQ(CeilDivide(64, 64), 1);
  EXPECT_EQ(CeilDivide(65, 64), 2);
}

TEST(Units, RoundUpGivesTheNextMultiple) {
  EXPECT_EQ(RoundUp(0, 8), 0);
  EXPECT_EQ(RoundUp(9, 8), 16);
  EXPECT_EQ(RoundUp(kMiB, kKiB), kMiB);
}

TEST(Clock, ARealOneNeverGoesBack) {
  MonotonicClock clock;
  const double before = clock.now_seconds();
  EXPECT_GE(clock.now_seconds(), before);
}

TEST(Clock, AManualOneMovesWhenTold) {
  ManualClock clock;
  EXPECT_EQ(clock.now_seconds(), 0);
  clock.Advance(1.5);
  EXPECT_EQ(clock.now_seconds(), 1.5);
}

}  // namespace
}  // namespace phalanx
