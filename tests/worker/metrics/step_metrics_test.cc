#include "worker/metrics/step_metrics.h"

#include <gtest/gtest.h>

#include "tests/support/metric_text.h"

namespace phalanx {
namespace {

constexpr char kReduces[] =
    "phalanx_collective_duration_seconds_count{op=\"all_reduce\",transport="
    "\"shm\"}";
constexpr char kLost[] =
    "phalanx_collective_failures_total{op=\"barrier\",reason=\"peer_lost\"}";
constexpr char kFetches[] = "phalanx_expert_fetch_duration_seconds_count";

PlannedSequence Rows(int64_t past, int64_t rows) {
  PlannedSequence sequence;
  sequence.past = past;
  sequence.token_ids.resize(rows);
  return sequence;
}

class StepMetricsTest : public testing::Test {
 protected:
  void Step(std::vector<PlannedSequence> sequences, double seconds) {
    StepPlan plan;
    plan.sequences = std::move(sequences);
    steps_.OnStepBegin({});
    clock_.Advance(seconds);
    steps_.OnStepEnd(plan);
  }
  double Value(const std::string& series) {
    return SeriesValue(registry_.Text(), series);
  }

  ManualClock clock_;
  MetricRegistry registry_;
  StepMetrics steps_{"shm", clock_, registry_};
};

TEST_F(StepMetricsTest, AStepIsTimedUnderItsPhase) {
  Step({Rows(5, 1), Rows(9, 1)}, .25);

  EXPECT_EQ(Value("phalanx_step_duration_seconds_sum{phase=\"decode\"}"), .25);
  EXPECT_EQ(Value("phalanx_step_tokens_sum{phase=\"decode\"}"), 2);
  EXPECT_EQ(Value("phalanx_step_duration_seconds_count{phase=\"prefill\"}"), 0);
}

TEST_F(StepMetricsTest, AStepOfPromptsAloneIsPrefill) {
  Step({Rows(0, 1), Rows(64, 30)}, .5);

  EXPECT_EQ(Value("phalanx_step_tokens_sum{phase=\"prefill\"}"), 31);
}

TEST_F(StepMetricsTest, AStepOfBothIsMixed) {
  Step({Rows(5, 1), Rows(0, 30)}, .5);

  EXPECT_EQ(Value("phalanx_step_tokens_sum{phase=\"mixed\"}"), 31);
}

TEST_F(StepMetricsTest, CallsCountWithinStepsOnly) {
  steps_.OnCall(CollectiveOp::kAllReduce, .1, 100);
  steps_.OnServing();
  steps_.OnCall(CollectiveOp::kAllReduce, .1, 100);
  steps_.OnStepBegin({});
  steps_.OnCall(CollectiveOp::kAllReduce, .1, 100);
  steps_.OnStepEnd(StepPlan());
  steps_.OnCall(CollectiveOp::kAllReduce, .1, 100);

  EXPECT_EQ(Value(kReduces), 1);
  EXPECT_EQ(Value("phalanx_collective_bytes_total{op=\"all_reduce\",transport="
                  "\"shm\"}"),
            100);
}

TEST_F(StepMetricsTest, SkewCountsWithinStepsOnly) {
  steps_.OnServing();
  steps_.OnSkew(.5);
  steps_.OnStepBegin({});
  steps_.OnSkew(.25);

  EXPECT_EQ(Value("phalanx_collective_skew_seconds_sum"), .25);
}

TEST_F(StepMetricsTest, AStepThatWasCutShortCountsForNothing) {
  steps_.OnServing();
  steps_.OnStepBegin({});
  steps_.OnEpochEnd();
  steps_.OnCall(CollectiveOp::kAllReduce, .1, 100);

  EXPECT_EQ(Value(kReduces), 0);
  EXPECT_EQ(Value("phalanx_step_duration_seconds_count{phase=\"prefill\"}"), 0);
}

TEST_F(StepMetricsTest, FailuresCountFromReadyOn) {
  steps_.OnFailure(CollectiveOp::kBarrier, CollectiveFailure::kPeerLost);
  const double before = Value(kLost);
  steps_.OnServing();
  steps_.OnFailure(CollectiveOp::kBarrier, CollectiveFailure::kPeerLost);

  EXPECT_EQ(before, 0);
  EXPECT_EQ(Value(kLost), 1);
}

TEST_F(StepMetricsTest, FetchesOfWarmUpDoNotCount) {
  steps_.OnFetch(.001, 10);
  steps_.OnServing();
  steps_.OnWarmUp({});
  steps_.OnFetch(.001, 10);
  const double before = Value(kFetches);
  steps_.OnServing();
  steps_.OnFetch(.001, 10);

  EXPECT_EQ(before, 0);
  EXPECT_EQ(Value(kFetches), 1);
}

}  // namespace
}  // namespace phalanx
