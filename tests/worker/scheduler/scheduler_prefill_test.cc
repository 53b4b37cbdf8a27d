// How rows of a step are shared: plan_builder under the scheduler.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "tests/worker/scheduler/scheduler_rig.h"

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::Pair;

class SchedulerPrefill : public SchedulerRig {
 protected:
  SchedulerPrefill() {
    SchedulerLimits limits = WideLimits();
    limits.prefill_chunk = 8;
    limits.step_tokens = 10;
    limits.max_running = 4;
    Use(limits);
  }

  RecordingSink a_, b_, c_, d_;
};

TEST_F(SchedulerPrefill, TakesDecodeRowsFirst) {
  Submit(Ask("a", 2, 100), a_);
  Step();
  Submit(Ask("b", 30), b_);

  const StepPlan plan = Step();

  EXPECT_THAT(RowsOf(plan), ElementsAre(1, 8));
  EXPECT_EQ(plan.sequences[0].past, 2);
}

TEST_F(SchedulerPrefill, LeavesPromptsWhatDecodingLeavesOfTheStep) {
  SchedulerLimits limits = WideLimits();
  limits.max_running = 4;
  limits.prefill_chunk = 8;
  limits.step_tokens = 4;
  Use(limits);
  Submit(Ask("a", 1, 100), a_);
  Submit(Ask("b", 1, 100), b_);
  Step();
  Submit(Ask("c", 30), c_);

  EXPECT_THAT(RowsOf(Step()), ElementsAre(1, 1, 2));
}

TEST_F(SchedulerPrefill, GivesAllPromptsTogetherOneChunk) {
  for (RecordingSink* sink : {&a_, &b_, &c_}) Submit(Ask("r", 30), *sink);

  EXPECT_EQ(Step().token_count(), 8);
}

TEST_F(SchedulerPrefill, GivesTheOldestHalfAndTheShortestTheRest) {
  Submit(Ask("a", 300), a_);
  Submit(Ask("b", 100), b_);
  Submit(Ask("c", 3), c_);

  EXPECT_THAT(RowsOf(Step()), ElementsAre(4, 1, 3));
}

TEST_F(SchedulerPrefill, GivesTheOldestWhatTheOthersDoNotNeed) {
  Submit(Ask("a", 300), a_);
  Submit(Ask("b", 1), b_);

  EXPECT_THAT(RowsOf(Step()), ElementsAre(7, 1));
}

TEST_F(SchedulerPrefill, PassesAHugePromptWithAShortOne) {
  Submit(Ask("a", 30000), a_);
  Step();
  Submit(Ask("b", 4), b_);

  Step();

  EXPECT_EQ(b_.ids.size(), 1u);
}

TEST_F(SchedulerPrefill, NeverDelaysADecodingSequenceByMoreThanAChunk) {
  Use(WideLimits());
  Submit(Ask("a", 3, 200), a_);
  Step();
  Submit(Ask("b", 32768), b_);

  int64_t most_rows = 0;
  for (int step = 0; b_.ids.empty(); ++step) {
    most_rows = std::max(most_rows, Step().token_count());
    ASSERT_EQ(a_.ids.size(), static_cast<size_t>(step + 2));
  }

  EXPECT_EQ(most_rows, 1 + 512);
}

TEST_F(SchedulerPrefill, EndsAChunkAtEachAnchor) {
  Use(WideLimits());
  Request request = Ask("a", 700);
  request.anchors = {200, 500};
  Submit(request, a_);

  std::vector<int64_t> ends;
  for (int i = 0; i < 3; ++i) {
    const StepPlan plan = Step();
    ends.push_back(plan.sequences[0].past + plan.token_count());
    EXPECT_EQ(plan.state_saves.size(), i < 2 ? 1u : 0u);
  }

  EXPECT_THAT(ends, ElementsAre(200, 500, 700));
}

TEST_F(SchedulerPrefill, EndsAChunkAtEachMultipleOfSnapshotTokens) {
  SchedulerLimits limits = WideLimits();
  limits.snapshot_tokens = 300;
  Use(limits);
  Submit(Ask("a", 700), a_);

  std::vector<std::pair<int64_t, size_t>> ends;
  for (int i = 0; i < 3; ++i) {
    const StepPlan plan = Step();
    ends.emplace_back(plan.sequences[0].past + plan.token_count(),
                      plan.state_saves.size());
  }

  EXPECT_THAT(ends, ElementsAre(Pair(300, 1u), Pair(600, 1u), Pair(700, 0u)));
}

TEST_F(SchedulerPrefill, KeepsStatesWhileItDecodesToo) {
  SchedulerLimits limits = WideLimits();
  limits.snapshot_tokens = 10;
  Use(limits);
  Submit(Ask("a", 9, 20), a_);
  Step();

  EXPECT_EQ(Step().state_saves.size(), 1u);  // 10 tokens.
  EXPECT_EQ(Step().state_saves.size(), 0u);
}

TEST_F(SchedulerPrefill, KeepsNothingOfWhatBypassesTheCache) {
  SchedulerLimits limits = WideLimits();
  limits.snapshot_tokens = 100;
  Use(limits);
  Request request = Ask("a", 300);
  request.anchors = {50, 300};
  request.cache.bypass = true;
  Submit(request, a_);

  const StepPlan plan = Step();

  EXPECT_EQ(plan.token_count(), 300);
  EXPECT_TRUE(plan.state_saves.empty());
}

}  // namespace
}  // namespace phalanx
