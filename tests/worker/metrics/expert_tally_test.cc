#include "worker/metrics/expert_tally.h"

#include <gtest/gtest.h>

namespace phalanx {
namespace {

TEST(ExpertTally, WithoutACacheEverythingIsZero) {
  const ExpertTally tally;

  const ExpertCacheCounters counters = tally.Read();

  EXPECT_EQ(counters.slots + counters.hits + counters.fetches, 0);
}

TEST(ExpertTally, ShowsWhatTheCacheCountsNow) {
  ExpertCacheCounters now = {.slots = 4, .hits = 1};
  ExpertTally tally;
  tally.SetSource([&now] { return now; });
  now.hits = 7;

  const ExpertCacheCounters counters = tally.Read();

  EXPECT_EQ(counters.slots, 4);
  EXPECT_EQ(counters.hits, 7);
}

}  // namespace
}  // namespace phalanx
