#include "gateway/metrics/group_metrics.h"

#include <gtest/gtest.h>

#include "tests/support/metric_text.h"

namespace phalanx {
namespace {

std::string State(const std::string& state) {
  return "phalanx_group_state{group=\"0\",state=\"" + state + "\"}";
}
std::string Transition(const std::string& from, const std::string& to,
                       const std::string& reason) {
  return "phalanx_group_transitions_total{from=\"" + from +
         "\",group=\"0\",reason=\"" + reason + "\",to=\"" + to + "\"}";
}
constexpr char kLastStep[] =
    "phalanx_group_last_step_timestamp_seconds{group=\"0\"}";

class GroupMetricsTest : public testing::Test {
 protected:
  // Both ranks answer, with these steps on rank 0, unless one is gone.
  void See(const std::string& state, uint64_t epoch = 1, int64_t steps = 0,
           int gone = -1) {
    WorkerGroup::View view;
    view.state = state;
    view.ready = state == "ready";
    view.epoch = epoch;
    for (int rank = 0; rank < 2; ++rank) {
      v1::RankStatus status;
      status.set_reachable(rank != gone);
      if (rank != gone) status.mutable_worker()->set_steps(steps);
      view.ranks.push_back(status);
    }
    metrics_.OnSeen(view);
  }
  double Value(const std::string& series) {
    return SeriesValue(registry_.Text(), series);
  }

  double now_ = 1000;
  MetricRegistry registry_;
  WorkerCalls calls_{registry_};
  EngineMetrics engines_{"mini", registry_};
  GroupMetrics metrics_{"0",    2,        [this] { return now_; },
                        calls_, engines_, registry_};
};

TEST_F(GroupMetricsTest, OneStateIsOneAndTheOthersAreThere) {
  See("loading");

  const std::string text = registry_.Text();

  for (const char* state : {"forming", "loading", "warming", "ready",
                            "degraded", "draining", "failed"})
    EXPECT_EQ(SeriesValue(text, State(state)),
              std::string(state) == "loading" ? 1 : 0)
        << state;
}

TEST_F(GroupMetricsTest, WhatRankZeroCountsIsTheEngines) {
  WorkerGroup::View view;
  view.state = "ready";
  view.epoch = 1;
  for (int rank = 0; rank < 2; ++rank) {
    v1::RankStatus& status = view.ranks.emplace_back();
    status.set_reachable(true);
    status.mutable_worker()->set_epoch(1);
    status.mutable_worker()->set_oldest_wait_seconds(rank + 3);
  }

  metrics_.OnSeen(view);

  EXPECT_EQ(Value("phalanx_queue_oldest_wait_seconds"), 3);
}

TEST_F(GroupMetricsTest, BeforeTheFirstLookItForms) {
  EXPECT_EQ(Value(State("forming")), 1);
}

TEST_F(GroupMetricsTest, AStartIsProgress) {
  for (const char* state :
       {"forming", "loading", "forming", "warming", "ready"})
    See(state);

  EXPECT_EQ(Value(Transition("forming", "loading", "progress")), 1);
  EXPECT_EQ(Value(Transition("loading", "forming", "progress")), 1);
  EXPECT_EQ(Value(Transition("warming", "ready", "progress")), 1);
  for (const char* from : {"loading", "warming", "ready"})
    EXPECT_EQ(Value(Transition(from, "forming", "rank_lost")), 0) << from;
}

TEST_F(GroupMetricsTest, ARankThatIsGoneIsALoss) {
  See("ready");
  See("forming", 1, 0, /*gone=*/1);

  EXPECT_EQ(Value(Transition("ready", "forming", "rank_lost")), 1);
  EXPECT_EQ(Value("phalanx_group_workers{group=\"0\"}"), 1);
  EXPECT_EQ(Value("phalanx_group_workers_expected{group=\"0\"}"), 2);
}

TEST_F(GroupMetricsTest, ALossIsSeenEvenWhereItsSuccessorLoadsAlready) {
  See("ready");
  See("loading");

  EXPECT_EQ(Value(Transition("ready", "loading", "rank_lost")), 1);
}

TEST_F(GroupMetricsTest, ARankThatGoesWhileItLoadsIsALoss) {
  See("loading");
  See("forming", 1, 0, /*gone=*/1);

  EXPECT_EQ(Value(Transition("loading", "forming", "rank_lost")), 1);
}

TEST_F(GroupMetricsTest, ALossBetweenTwoLooksIsSeenByTheEpoch) {
  See("ready", 1);
  See("ready", 2);

  EXPECT_EQ(Value(Transition("ready", "forming", "rank_lost")), 1);
  EXPECT_EQ(Value(Transition("forming", "ready", "progress")), 2);
  EXPECT_EQ(Value("phalanx_group_epoch{group=\"0\"}"), 2);
}

TEST_F(GroupMetricsTest, AStepMovesItsTime) {
  See("ready", 1, 0);
  const double idle = Value(kLastStep);
  now_ = 1010;
  See("ready", 1, 5);
  now_ = 1020;
  See("ready", 1, 5);

  EXPECT_EQ(idle, 0);
  EXPECT_EQ(Value(kLastStep), 1010);
}

TEST_F(GroupMetricsTest, ANewEpochsFirstStepsAreSteps) {
  See("ready", 1, 5);
  now_ = 1010;
  See("ready", 2, 5);

  EXPECT_EQ(Value(kLastStep), 1010);
}

TEST_F(GroupMetricsTest, ASilentRanksHeartbeatStays) {
  now_ = 1001;
  See("ready");
  now_ = 1002;
  See("forming", 1, 0, /*gone=*/1);

  EXPECT_EQ(Value("phalanx_worker_last_heartbeat_timestamp_seconds{group=\"0\","
                  "rank=\"0\"}"),
            1002);
  EXPECT_EQ(Value("phalanx_worker_last_heartbeat_timestamp_seconds{group=\"0\","
                  "rank=\"1\"}"),
            1001);
}

TEST_F(GroupMetricsTest, EveryChangeOfStateHasASeries) {
  const char* states[] = {"forming", "loading",  "warming",
                          "ready",   "draining", "failed"};
  for (const char* from : states)
    for (const char* to : states) {
      See(from);
      See(to, 1, 0, /*gone=*/1);
    }

  EXPECT_EQ(Value(State("failed")), 1);
}

}  // namespace
}  // namespace phalanx
