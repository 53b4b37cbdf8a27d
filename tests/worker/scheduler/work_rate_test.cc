#include "worker/scheduler/work_rate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace phalanx {
namespace {

TEST(WorkRate, SaysNothingBeforeItHasMeasuredEnough) {
  WorkRate rate;
  for (int i = 0; i < 31; ++i) rate.Add(100, 0.5);

  EXPECT_FALSE(rate.tokens_per_second().has_value());
}

TEST(WorkRate, IsTokensPerSecond) {
  WorkRate rate;
  for (int i = 0; i < 32; ++i) rate.Add(100, 0.5);

  EXPECT_DOUBLE_EQ(*rate.tokens_per_second(), 200);
}

TEST(WorkRate, FollowsWhatChanges) {
  WorkRate rate;
  for (int i = 0; i < 100; ++i) rate.Add(100, 0.5);
  for (int i = 0; i < 500; ++i) rate.Add(100, 1);

  EXPECT_NEAR(*rate.tokens_per_second(), 100, 1);
}

TEST(WorkRate, SaysNothingWhereNoTimePassed) {
  WorkRate rate;
  for (int i = 0; i < 100; ++i) rate.Add(100, 0);

  EXPECT_FALSE(rate.tokens_per_second().has_value());
}

}  // namespace
}  // namespace phalanx
