#include "worker/scheduler/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/reason.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/scheduler/recording_sink.h"
#include "tests/worker/scheduler/scheduler_rig.h"

namespace phalanx {
namespace {

using testing::_;
using testing::ElementsAre;
using testing::Optional;

class SchedulerTest : public SchedulerRig {
 protected:
  RecordingSink a_, b_, c_, d_, e_;
};

TEST_F(SchedulerTest, PlansNothingWhenNothingIsThere) {
  EXPECT_TRUE(scheduler().Plan().sequences.empty());
  EXPECT_TRUE(scheduler().Plan().sequences.empty());
}

TEST_F(SchedulerTest, PrefillsAWholeShortPromptAndWantsLogits) {
  ASSERT_OK(scheduler().Submit(Ask("a", 3), &a_));

  const StepPlan plan = scheduler().Plan();

  EXPECT_EQ(plan.kind, StepKind::kRun);
  EXPECT_EQ(plan.epoch, kEpoch);
  EXPECT_EQ(plan.step, 1);
  EXPECT_THAT(plan.sequences,
              ElementsAre(PlannedSequence{.state_slot = 0,
                                          .past = 0,
                                          .token_ids = {0, 1, 2},
                                          .block_table = {0},
                                          .logit_rows = 1}));
}

TEST_F(SchedulerTest, FeedsTheSampledTokenBackInTheNextStep) {
  ASSERT_OK(scheduler().Submit(Ask("a", 3), &a_));
  Step(77);

  const StepPlan plan = scheduler().Plan();

  ASSERT_EQ(plan.sequences.size(), 1u);
  EXPECT_EQ(plan.sequences[0].past, 3);
  EXPECT_THAT(plan.sequences[0].token_ids, ElementsAre(77));
}

TEST_F(SchedulerTest, CutsALongPromptIntoChunksAndSamplesAfterTheLast) {
  ASSERT_OK(scheduler().Submit(Ask("a", 19), &a_));

  std::vector<size_t> rows;
  std::vector<int64_t> wants;
  for (int i = 0; i < 4; ++i) {
    const StepPlan plan = Step();
    rows.push_back(plan.sequences[0].token_ids.size());
    wants.push_back(plan.sequences[0].logit_rows);
  }

  EXPECT_THAT(rows, ElementsAre(8, 8, 3, 1));
  EXPECT_THAT(wants, ElementsAre(0, 0, 1, 1));
}

TEST_F(SchedulerTest, ListsTheBlocksOfThePositionsSoFarOnly) {
  ASSERT_OK(scheduler().Submit(Ask("a", 64, 100), &a_));
  for (int i = 0; i < 8; ++i)
    EXPECT_EQ(Step().sequences[0].block_table.size(), 1u);

  EXPECT_EQ(Step().sequences[0].block_table.size(), 2u);
}

TEST_F(SchedulerTest, TellsHowLongARequestWaited) {
  ASSERT_OK(scheduler().Submit(Ask("a", 3), &a_));
  clock_.Advance(2.5);

  Step();

  EXPECT_THAT(a_.admitted, Optional(2.5));
}

TEST_F(SchedulerTest, FinishesAtMaxTokens) {
  ASSERT_OK(scheduler().Submit(Ask("a", 3, 2), &a_));

  StepUntilIdle();

  EXPECT_THAT(a_.ids, ElementsAre(500, 500));
  EXPECT_EQ(a_.finished, FinishReason::kLength);
  EXPECT_EQ(a_.stop_id, 0);
  EXPECT_EQ(a_.ends, 1);
}

TEST_F(SchedulerTest, PushesTheStopTokenAndFinishes) {
  Request request = Ask("a", 3);
  request.stop_ids = {8, 9};
  ASSERT_OK(scheduler().Submit(request, &a_));
  Step(7);

  Step(9);

  EXPECT_THAT(a_.ids, ElementsAre(7, 9));
  EXPECT_EQ(a_.finished, FinishReason::kStop);
  EXPECT_EQ(a_.stop_id, 9);
}

TEST_F(SchedulerTest, StopsAtAStopIdRatherThanAtTheLengthItReachesToo) {
  Request request = Ask("a", 3, 1);
  request.stop_ids = {9};
  ASSERT_OK(scheduler().Submit(request, &a_));

  Step(9);

  EXPECT_EQ(a_.finished, FinishReason::kStop);
}

TEST_F(SchedulerTest, FinishesWhenTheContextIsFull) {
  SchedulerLimits limits = Limits();
  limits.max_model_len = 8;
  Scheduler scheduler(limits, kEpoch, clock_);
  ASSERT_OK(scheduler.Submit(Ask("a", 6, 8), &a_));

  for (int i = 0; i < 2; ++i) scheduler.Commit(scheduler.Plan(), {Token{}});

  EXPECT_EQ(a_.ids.size(), 2u);
  EXPECT_EQ(a_.finished, FinishReason::kLength);
}

TEST_F(SchedulerTest, GivesBackBlocksAndSlotAtTheEnd) {
  ASSERT_OK(scheduler().Submit(Ask("a", 3), &a_));

  StepUntilIdle();

  EXPECT_EQ(scheduler().counts().kv_blocks_used, 0);
  EXPECT_EQ(scheduler().counts().state_slots_used, 0);
  EXPECT_EQ(scheduler().counts().running, 0);
}

TEST_F(SchedulerTest, ReplaysEmittedIdsAfterThePromptWithoutPushingThem) {
  Request request = Ask("a", 2);
  request.emitted_ids = {70, 71};
  ASSERT_OK(scheduler().Submit(request, &a_));

  const StepPlan plan = Step(72);
  StepUntilIdle();

  EXPECT_THAT(plan.sequences[0].token_ids, ElementsAre(0, 1, 70, 71));
  EXPECT_THAT(a_.ids, ElementsAre(72, 500));  // 4 with the emitted ones.
}

TEST_F(SchedulerTest, SamplesAResumedRequestAtTheSamePosition) {
  ASSERT_OK(scheduler().Submit(Ask("a", 2), &a_));
  Step();
  Step();
  (void)scheduler().Plan();
  ASSERT_EQ(scheduler().samples().size(), 1u);
  const int64_t position = scheduler().samples()[0].position();
  scheduler().CloseAll(absl::UnavailableError("lost"));
  Request resumed = Ask("a", 2);
  resumed.emitted_ids = {500, 500};
  ASSERT_OK(scheduler().Submit(resumed, &b_));

  (void)scheduler().Plan();

  EXPECT_EQ(position, 4);
  EXPECT_EQ(scheduler().samples()[0].position(), position);
}

TEST_F(SchedulerTest, FinishesARequestWhoseEmittedIdsAreComplete) {
  Request stopped = Ask("a", 2);
  stopped.stop_ids = {9};
  stopped.emitted_ids = {9};
  Request full = Ask("b", 2, 1);
  full.emitted_ids = {3};

  ASSERT_OK(scheduler().Submit(stopped, &a_));
  ASSERT_OK(scheduler().Submit(full, &b_));

  EXPECT_EQ(a_.finished, FinishReason::kStop);
  EXPECT_EQ(a_.stop_id, 9);
  EXPECT_EQ(b_.finished, FinishReason::kLength);
}

TEST_F(SchedulerTest, TellsTheSamplerWhatWasAsked) {
  Request request = Ask("a", 3);
  request.sampling.seed = 99;
  request.sampling.choice_index = 2;
  request.logprobs = true;
  request.top_n = 7;
  ASSERT_OK(scheduler().Submit(request, &a_));

  (void)scheduler().Plan();

  ASSERT_EQ(scheduler().samples().size(), 1u);
  const SampleSpec& spec = scheduler().samples()[0];
  EXPECT_EQ(spec.sampling->seed, 99u);
  EXPECT_EQ(spec.sampling->choice_index, 2);
  EXPECT_EQ(spec.position(), 3);
  EXPECT_TRUE(spec.logprobs);
  EXPECT_EQ(spec.top_n, 7);
}

TEST_F(SchedulerTest, DropsARunningRequestWhoseClientIsGone) {
  ASSERT_OK(scheduler().Submit(Ask("a", 3), &a_));
  Step();
  a_.gone = true;

  EXPECT_TRUE(Step().sequences.empty());

  EXPECT_THAT(a_.error, StatusIs(absl::StatusCode::kCancelled, _));
  EXPECT_EQ(ReasonOf(a_.error).word, "CLIENT");
  EXPECT_EQ(scheduler().counts().kv_blocks_used, 0);
}

TEST_F(SchedulerTest, DropsAWaitingRequestThatIsCancelled) {
  ASSERT_OK(scheduler().Submit(Ask("a", 3), &a_));
  ASSERT_OK(scheduler().Submit(Ask("b", 3), &b_));
  ASSERT_OK(scheduler().Submit(Ask("c", 3), &c_));
  Step();

  EXPECT_TRUE(scheduler().Cancel("c"));
  Step();

  EXPECT_THAT(c_.error, StatusIs(absl::StatusCode::kCancelled, _));
  EXPECT_FALSE(c_.admitted.has_value());
}

TEST_F(SchedulerTest, CancelsEveryChoiceOfARequest) {
  Request second = Ask("a", 3);
  second.sampling.choice_index = 1;
  ASSERT_OK(scheduler().Submit(Ask("a", 3), &a_));
  ASSERT_OK(scheduler().Submit(second, &b_));

  EXPECT_TRUE(scheduler().Cancel("a"));

  EXPECT_TRUE(Step().sequences.empty());
  EXPECT_EQ(a_.ends + b_.ends, 2);
}

TEST_F(SchedulerTest, FindsNoRequestToCancelThatIsNotThere) {
  EXPECT_FALSE(scheduler().Cancel("a"));
}

TEST_F(SchedulerTest, EndsOnlyTheSequenceWhoseSamplingFailed) {
  ASSERT_OK(scheduler().Submit(Ask("a", 3), &a_));
  ASSERT_OK(scheduler().Submit(Ask("b", 3), &b_));

  const StepPlan plan = scheduler().Plan();
  scheduler().Commit(plan, {absl::InternalError("not a number"), Token{}});

  EXPECT_THAT(a_.error, StatusIs(absl::StatusCode::kInternal, _));
  EXPECT_EQ(b_.ends, 0);
  EXPECT_EQ(scheduler().counts().running, 1);
}

TEST_F(SchedulerTest, RefusesWhatExceedsTheQueue) {
  ASSERT_OK(scheduler().Submit(Ask("a", 3), &a_));
  ASSERT_OK(scheduler().Submit(Ask("b", 3), &b_));
  ASSERT_OK(scheduler().Submit(Ask("c", 3), &c_));
  ASSERT_OK(scheduler().Submit(Ask("d", 3), &d_));

  const absl::Status status = scheduler().Submit(Ask("e", 3), &e_);

  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted,
                               "4 sequences are active; at most 4"));
  EXPECT_EQ(ReasonOf(status).word, "QUEUE_FULL");
  EXPECT_EQ(e_.ends, 0);
}

TEST_F(SchedulerTest, RefusesABadRequestAndLeavesItsSinkAlone) {
  EXPECT_THAT(scheduler().Submit(Ask("a", 0), &a_),
              StatusIs(absl::StatusCode::kInvalidArgument, _));
  EXPECT_EQ(a_.ends, 0);
}

TEST_F(SchedulerTest, ClosesEverythingWithTheGivenError) {
  for (RecordingSink* sink : {&a_, &b_, &c_})
    ASSERT_OK(scheduler().Submit(Ask("r", 3), sink));
  (void)scheduler().Plan();

  scheduler().CloseAll(absl::UnavailableError("rank 1 is lost"));

  for (const RecordingSink* sink : {&a_, &b_, &c_})
    EXPECT_THAT(sink->error,
                StatusIs(absl::StatusCode::kUnavailable, "rank 1 is lost"));
  EXPECT_EQ(scheduler().counts().kv_blocks_used, 0);
  EXPECT_EQ(scheduler().counts().waiting, 0);
}

TEST_F(SchedulerTest, NamesWhatEndedOnce) {
  ASSERT_OK(scheduler().Submit(Ask("a", 3, 1), &a_));
  Step();

  EXPECT_THAT(scheduler().TakeEnded(), ElementsAre(RequestKey{"a", 0}));
  EXPECT_THAT(scheduler().TakeEnded(), ElementsAre());
}

TEST_F(SchedulerTest, TellsOfAnEndBeforeTheSinkIsTold) {
  int ends_before = -1;
  Scheduler scheduler(Limits(), kEpoch, clock_,
                      [&](const RequestKey&) { ends_before = a_.ends; });
  ASSERT_OK(scheduler.Submit(Ask("a", 3, 1), &a_));

  scheduler.Commit(scheduler.Plan(), {Token{}});

  EXPECT_EQ(ends_before, 0);
  EXPECT_EQ(a_.ends, 1);
}

TEST_F(SchedulerTest, CountsCommittedSteps) {
  ASSERT_OK(scheduler().Submit(Ask("a", 3), &a_));
  Step();
  (void)scheduler().Plan();

  EXPECT_EQ(scheduler().counts().steps, 1);
}

TEST_F(SchedulerTest, MakesPlansThatEveryRankAccepts) {
  ASSERT_OK(scheduler().Submit(Ask("a", 30, 200), &a_));
  ASSERT_OK(scheduler().Submit(Ask("b", 2, 2), &b_));
  for (int i = 0; i < 10; ++i) {
    const StepPlan plan = Step();
    const absl::StatusOr<StepPlan> decoded =
        Decode(Encode(plan), PlanLimits(Limits()));
    ASSERT_OK(decoded);
    ASSERT_EQ(*decoded, plan);
  }
}

using SchedulerDeathTest = SchedulerTest;

TEST_F(SchedulerDeathTest, RefusesASecondPlanBeforeTheCommit) {
  ASSERT_OK(scheduler().Submit(Ask("a", 3), &a_));
  (void)scheduler().Plan();

  EXPECT_DEATH((void)scheduler().Plan(), "plan_outstanding_");
}

TEST_F(SchedulerDeathTest, RefusesACommitWithTooFewTokens) {
  ASSERT_OK(scheduler().Submit(Ask("a", 3), &a_));
  const StepPlan plan = scheduler().Plan();

  EXPECT_DEATH(scheduler().Commit(plan, {}), "samples");
}

}  // namespace
}  // namespace phalanx
