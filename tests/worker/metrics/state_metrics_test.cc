#include "worker/metrics/state_metrics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/metric_text.h"

namespace phalanx {
namespace {

class StateMetricsTest : public testing::Test {
 protected:
  void Add(int rank) {
    SchedulerLimits limits;
    limits.kv_blocks = 100;
    limits.state_slots = 8;
    AddStateMetrics(rank, limits, board_, experts_, registry_);
  }
  double Value(const std::string& series) {
    return SeriesValue(registry_.Text(), series);
  }

  ManualClock clock_;
  StatusBoard board_{clock_};
  ExpertTally experts_;
  MetricRegistry registry_;
};

TEST_F(StateMetricsTest, TheCacheIsCountedInTokens) {
  Add(0);
  board_.Write([](WorkerSnapshot& s) {
    s.counts.kv_blocks_total = 80;
    s.counts.kv_blocks_used = 20;
    s.counts.kv_blocks_reusable = 30;
  });

  EXPECT_EQ(Value("phalanx_kv_cache_block_tokens"), 64);
  EXPECT_EQ(Value("phalanx_kv_cache_capacity_tokens"), 80 * 64);
  EXPECT_EQ(Value("phalanx_kv_cache_used_tokens"), 20 * 64);
  EXPECT_EQ(Value("phalanx_kv_cache_usage_ratio"), .25);
  EXPECT_EQ(Value("phalanx_kv_cache_reusable_tokens"), 30 * 64);
}

TEST_F(StateMetricsTest, BeforeThereIsAGroupTheCapacityIsTheRanksOwn) {
  Add(0);

  EXPECT_EQ(Value("phalanx_kv_cache_capacity_tokens"), 6400);
  EXPECT_EQ(Value("phalanx_kv_cache_usage_ratio"), 0);
}

TEST_F(StateMetricsTest, SlotsAreActiveOrSnapshotsOrFree) {
  Add(0);
  board_.Write([](WorkerSnapshot& s) {
    s.counts.state_slots_used = 3;
    s.counts.state_slots_snapshot = 4;
  });

  EXPECT_EQ(Value("phalanx_gdn_state_slots{state=\"active\"}"), 3);
  EXPECT_EQ(Value("phalanx_gdn_state_slots{state=\"free\"}"), 1);
  EXPECT_EQ(Value("phalanx_gdn_state_slots{state=\"snapshot\"}"), 4);
}

TEST_F(StateMetricsTest, AFollowerSaysNothingOfWhatItDoesNotKnow) {
  Add(1);

  EXPECT_EQ(Value("phalanx_kv_cache_capacity_tokens"), 6400);
  EXPECT_TRUE(std::isnan(Value("phalanx_kv_cache_used_tokens")));
  EXPECT_TRUE(std::isnan(Value("phalanx_kv_cache_reusable_tokens")));
  EXPECT_TRUE(std::isnan(Value("phalanx_gdn_state_slots{state=\"active\"}")));
}

TEST_F(StateMetricsTest, ThePresentPhaseIsOneAndItsDurationGrows) {
  Add(0);
  clock_.Advance(3);

  const std::string text = registry_.Text();

  EXPECT_EQ(SeriesValue(text, "phalanx_startup_phase{phase=\"loading\"}"), 1);
  EXPECT_EQ(SeriesValue(text, "phalanx_startup_phase{phase=\"ready\"}"), 0);
  EXPECT_EQ(
      SeriesValue(text, "phalanx_startup_duration_seconds{phase=\"loading\"}"),
      3);
}

TEST_F(StateMetricsTest, APhaseThatIsOverKeepsItsDuration) {
  Add(0);
  clock_.Advance(3);
  board_.Write([](WorkerSnapshot& s) { s.state = WorkerState::kForming; });
  clock_.Advance(2);

  const std::string text = registry_.Text();

  EXPECT_EQ(
      SeriesValue(text, "phalanx_startup_duration_seconds{phase=\"loading\"}"),
      3);
  EXPECT_EQ(
      SeriesValue(text, "phalanx_startup_duration_seconds{phase=\"forming\"}"),
      2);
}

TEST_F(StateMetricsTest, ProgressIsTheBoards) {
  Add(0);
  board_.Write([](WorkerSnapshot& s) { s.load_progress = .5; });

  EXPECT_EQ(Value("phalanx_load_progress_ratio"), .5);
}

TEST_F(StateMetricsTest, ExpertsAreCountedBySlotAndByLookup) {
  Add(0);
  ExpertCacheCounters now;
  experts_.SetSource([&] { return now; });
  now = {.slots = 10,
         .slots_used = 4,
         .hits = 6,
         .fetches = 2,
         .fetched_bytes = 256,
         .tokens = 3,
         .imbalance = 1.5};

  const std::string text = registry_.Text();

  EXPECT_EQ(SeriesValue(text, "phalanx_expert_cache_slots{state=\"used\"}"), 4);
  EXPECT_EQ(SeriesValue(text, "phalanx_expert_cache_slots{state=\"free\"}"), 6);
  EXPECT_EQ(SeriesValue(text, "phalanx_expert_lookups_total{result=\"hit\"}"),
            6);
  EXPECT_EQ(
      SeriesValue(text, "phalanx_expert_lookups_total{result=\"fetched\"}"), 2);
  EXPECT_EQ(SeriesValue(text, "phalanx_expert_fetched_bytes_total"), 256);
  EXPECT_EQ(SeriesValue(text, "phalanx_expert_tokens_total"), 3);
  EXPECT_EQ(SeriesValue(text, "phalanx_expert_load_imbalance_ratio"), 1.5);
}

}  // namespace
}  // namespace phalanx
