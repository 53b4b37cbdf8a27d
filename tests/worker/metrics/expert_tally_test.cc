#include "worker/metrics/expert_tally.h"

#include <gtest/gtest.h>

namespace phalanx {
namespace {

class ExpertTallyTest : public testing::Test {
 protected:
  ExpertTallyTest() {
    tally_.SetSource([this] { return now_; });
  }

  ExpertCacheCounters now_;
  ExpertTally tally_;
};

TEST_F(ExpertTallyTest, WhatComesBeforeServiceCountsForNothing) {
  now_ = {.slots = 4,
          .slots_used = 3,
          .hits = 5,
          .fetches = 6,
          .fetched_bytes = 7,
          .imbalance = 2};

  const ExpertCacheCounters read = tally_.Read();

  EXPECT_EQ(read.hits + read.fetches + read.fetched_bytes, 0);
  EXPECT_EQ(read.imbalance, 0);
  EXPECT_EQ(read.slots, 4);
  EXPECT_EQ(read.slots_used, 3);
}

TEST_F(ExpertTallyTest, ServiceCounts) {
  now_.hits = 5;
  tally_.Begin();
  now_.hits = 9;
  now_.fetches = 2;
  now_.fetched_bytes = 64;

  EXPECT_EQ(tally_.Read().hits, 4);
  EXPECT_EQ(tally_.Read().fetches, 2);
  EXPECT_EQ(tally_.Read().fetched_bytes, 64);
}

TEST_F(ExpertTallyTest, AFollowersSecondBeginForgetsTheWarmUpBetween) {
  tally_.Begin();
  now_.hits = 9;
  tally_.Begin();
  now_.hits = 11;

  EXPECT_EQ(tally_.Read().hits, 2);
}

TEST_F(ExpertTallyTest, EpochsAddUp) {
  tally_.Begin();
  now_.hits = 3;
  tally_.End();
  now_.hits = 10;
  tally_.Begin();
  now_.hits = 14;

  EXPECT_EQ(tally_.Read().hits, 7);
}

TEST_F(ExpertTallyTest, ACacheThatIsResetTakesNothingBack) {
  tally_.Begin();
  now_.hits = 3;
  tally_.End();
  now_.hits = 100;
  tally_.Begin();
  now_.hits = 2;  // Reset after Begin, then two more.

  EXPECT_EQ(tally_.Read().hits, 5);
}

TEST_F(ExpertTallyTest, WhatWasCountedOutlivesItsCache) {
  tally_.Begin();
  now_.hits = 3;
  tally_.SetSource({});

  EXPECT_EQ(tally_.Read().hits, 3);
  EXPECT_EQ(tally_.Read().slots, 0);
}

}  // namespace
}  // namespace phalanx
