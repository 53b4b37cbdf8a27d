#include "gateway/metrics/engine_metrics.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/metric_text.h"

namespace phalanx {
namespace {

constexpr char kOldest[] = "phalanx_queue_oldest_wait_seconds";
constexpr char kQueried[] =
    "phalanx_prefix_cache_queried_tokens_total{model=\"mini\"}";
constexpr char kHit[] = "phalanx_prefix_cache_hit_tokens_total{model=\"mini\"}";

std::string Preemptions(const std::string& reason) {
  return "phalanx_preemptions_total{reason=\"" + reason + "\"}";
}

class EngineMetricsTest : public testing::Test {
 protected:
  // So many tokens were looked for in this epoch.
  static v1::WorkerStatus Queried(uint64_t epoch, int64_t tokens) {
    v1::WorkerStatus leader;
    leader.set_epoch(epoch);
    leader.set_prefix_queried_tokens(tokens);
    return leader;
  }
  double Value(const std::string& series) {
    return SeriesValue(registry_.Text(), series);
  }

  MetricRegistry registry_;
  EngineMetrics metrics_{"mini", registry_};
};

TEST_F(EngineMetricsTest, EverySeriesIsThereAtZero) {
  const std::string text = registry_.Text();

  for (const char* reason : {"kv_full", "state_full", "priority"})
    EXPECT_EQ(SeriesValue(text, Preemptions(reason)), 0) << reason;
  EXPECT_EQ(SeriesValue(text, kQueried), 0);
  EXPECT_EQ(SeriesValue(text, kHit), 0);
  EXPECT_EQ(SeriesValue(text, kOldest), 0);
}

TEST_F(EngineMetricsTest, EachCountHasItsSeries) {
  v1::WorkerStatus leader = Queried(1, 0);
  metrics_.OnSeen("0", leader);
  leader.set_preempted_for_kv(1);
  leader.set_preempted_for_state(2);
  leader.set_preempted_for_priority(3);
  leader.set_prefix_queried_tokens(40);
  leader.set_prefix_hit_tokens(5);

  metrics_.OnSeen("0", leader);

  EXPECT_EQ(Value(Preemptions("kv_full")), 1);
  EXPECT_EQ(Value(Preemptions("state_full")), 2);
  EXPECT_EQ(Value(Preemptions("priority")), 3);
  EXPECT_EQ(Value(kQueried), 40);
  EXPECT_EQ(Value(kHit), 5);
}

TEST_F(EngineMetricsTest, WhatWasBeforeTheFirstLookIsNotCounted) {
  metrics_.OnSeen("0", Queried(3, 100));
  metrics_.OnSeen("0", Queried(3, 110));
  metrics_.OnSeen("0", Queried(3, 110));

  EXPECT_EQ(Value(kQueried), 10);
}

TEST_F(EngineMetricsTest, ANewEpochCountsFromZero) {
  metrics_.OnSeen("0", Queried(1, 0));
  metrics_.OnSeen("0", Queried(1, 10));
  metrics_.OnSeen("0", Queried(2, 7));
  metrics_.OnSeen("0", Queried(2, 8));

  EXPECT_EQ(Value(kQueried), 18);
}

TEST_F(EngineMetricsTest, ARankThatIsNotThereChangesNoCount) {
  metrics_.OnSeen("0", Queried(1, 0));
  metrics_.OnSeen("0", Queried(1, 10));
  metrics_.OnSeen("0", v1::WorkerStatus());
  metrics_.OnSeen("0", Queried(1, 12));

  EXPECT_EQ(Value(kQueried), 12);
}

TEST_F(EngineMetricsTest, ALookAtNobodyIsNotTheFirst) {
  metrics_.OnSeen("0", v1::WorkerStatus());
  metrics_.OnSeen("0", Queried(7, 100));
  metrics_.OnSeen("0", Queried(7, 105));

  EXPECT_EQ(Value(kQueried), 5);
}

TEST_F(EngineMetricsTest, GroupsAddUp) {
  metrics_.OnSeen("0", Queried(1, 0));
  metrics_.OnSeen("1", Queried(1, 0));
  metrics_.OnSeen("0", Queried(1, 3));
  metrics_.OnSeen("1", Queried(1, 4));

  EXPECT_EQ(Value(kQueried), 7);
}

TEST_F(EngineMetricsTest, TheOldestWaitIsOfAllGroups) {
  v1::WorkerStatus leader = Queried(1, 0);
  leader.set_oldest_wait_seconds(5);
  metrics_.OnSeen("0", leader);
  leader.set_oldest_wait_seconds(2);
  metrics_.OnSeen("1", leader);
  EXPECT_EQ(Value(kOldest), 5);

  metrics_.OnSeen("0", v1::WorkerStatus());
  EXPECT_EQ(Value(kOldest), 2);
}

}  // namespace
}  // namespace phalanx
