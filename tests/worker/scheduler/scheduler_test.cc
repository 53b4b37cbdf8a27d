#include "worker/scheduler/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/reason.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/scheduler/recording_sink.h"

namespace phalanx {
namespace {

using testing::_;
using testing::ElementsAre;
using testing::Optional;

constexpr uint64_t kEpoch = 5;

SchedulerLimits Limits() {
  return {.max_running = 2,
          .max_waiting = 2,
          .max_model_len = 300,
          .prefill_chunk = 8,
          .step_tokens = 10,
          .kv_blocks = 4,
          .state_slots = 2,
          .vocab_size = 1000,
          .block_tokens = 64};
}

class SchedulerTest : public testing::Test {
 protected:
  ~SchedulerTest() override {
    scheduler_.CloseAll(absl::UnavailableError("the test is over"));
  }

  static Request Ask(const std::string& id, int64_t prompt_tokens,
                     int64_t max_tokens = 4) {
    Request request;
    request.id = id;
    for (int32_t i = 0; i < prompt_tokens; ++i) request.prompt_ids.push_back(i);
    request.max_tokens = max_tokens;
    return request;
  }

  // Runs one step whose every sampled token is `id`.
  StepPlan Step(int32_t id = 500) {
    StepPlan plan = scheduler_.Plan();
    if (plan.sequences.empty()) return plan;
    Token token;
    token.id = id;
    scheduler_.Commit(plan, {scheduler_.samples().size(), token});
    return plan;
  }
  void StepUntilIdle() {
    while (!Step().sequences.empty()) {
    }
  }

  ManualClock clock_;
  Scheduler scheduler_{Limits(), kEpoch, clock_};
  RecordingSink a_, b_, c_, d_, e_;
};

TEST_F(SchedulerTest, PlansNothingWhenNothingIsThere) {
  EXPECT_TRUE(scheduler_.Plan().sequences.empty());
  EXPECT_TRUE(scheduler_.Plan().sequences.empty());
}

TEST_F(SchedulerTest, PrefillsAWholeShortPromptAndWantsLogits) {
  ASSERT_OK(scheduler_.Submit(Ask("a", 3), &a_));

  const StepPlan plan = scheduler_.Plan();

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
  ASSERT_OK(scheduler_.Submit(Ask("a", 3), &a_));
  Step(77);

  const StepPlan plan = scheduler_.Plan();

  ASSERT_EQ(plan.sequences.size(), 1u);
  EXPECT_EQ(plan.sequences[0].past, 3);
  EXPECT_THAT(plan.sequences[0].token_ids, ElementsAre(77));
}

TEST_F(SchedulerTest, CutsALongPromptIntoChunksAndSamplesAfterTheLast) {
  ASSERT_OK(scheduler_.Submit(Ask("a", 19), &a_));

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

TEST_F(SchedulerTest, DecodesBeforeItPrefillsAndNeverExceedsTheBudget) {
  ASSERT_OK(scheduler_.Submit(Ask("a", 30), &a_));
  ASSERT_OK(scheduler_.Submit(Ask("b", 2), &b_));
  const StepPlan first = Step();
  ASSERT_EQ(first.token_count(), 10);  // 8 of a, 2 of b.

  const StepPlan second = Step();

  ASSERT_EQ(second.sequences.size(), 2u);
  EXPECT_EQ(second.sequences[0].state_slot, 1);
  EXPECT_EQ(second.sequences[0].token_ids.size(), 1u);
  EXPECT_EQ(second.sequences[1].state_slot, 0);
  EXPECT_EQ(second.sequences[1].token_ids.size(), 8u);
}

TEST_F(SchedulerTest, SharesWhatTheFirstPrefillLeavesOfTheBudget) {
  ASSERT_OK(scheduler_.Submit(Ask("a", 30), &a_));
  ASSERT_OK(scheduler_.Submit(Ask("b", 30), &b_));

  const StepPlan plan = scheduler_.Plan();

  EXPECT_EQ(plan.sequences[0].token_ids.size(), 8u);
  EXPECT_EQ(plan.sequences[1].token_ids.size(), 2u);
}

TEST_F(SchedulerTest, ListsTheBlocksOfThePositionsSoFarOnly) {
  ASSERT_OK(scheduler_.Submit(Ask("a", 64, 100), &a_));
  for (int i = 0; i < 8; ++i)
    EXPECT_EQ(Step().sequences[0].block_table.size(), 1u);

  EXPECT_EQ(Step().sequences[0].block_table.size(), 2u);
}

TEST_F(SchedulerTest, ReservesBlocksForThePromptAndAllNewTokens) {
  ASSERT_OK(scheduler_.Submit(Ask("a", 10, 55), &a_));
  Step();

  EXPECT_EQ(scheduler_.counts().kv_blocks_used, 2);
  EXPECT_EQ(scheduler_.counts().state_slots_used, 1);
}

TEST_F(SchedulerTest, KeepsARequestWaitingUntilItsBlocksAreFree) {
  ASSERT_OK(scheduler_.Submit(Ask("a", 10, 150), &a_));  // 3 blocks.
  ASSERT_OK(scheduler_.Submit(Ask("b", 10, 60), &b_));   // 2 blocks.
  Step();
  EXPECT_EQ(scheduler_.counts().waiting, 1);
  EXPECT_FALSE(b_.admitted.has_value());
  a_.gone = true;

  Step();

  EXPECT_TRUE(b_.admitted.has_value());
}

TEST_F(SchedulerTest, LetsNobodyOvertakeTheOneWhoseTurnItIs) {
  ASSERT_OK(scheduler_.Submit(Ask("a", 10, 150), &a_));  // 3 blocks.
  ASSERT_OK(scheduler_.Submit(Ask("b", 10, 60), &b_));   // 2 blocks: waits.
  ASSERT_OK(scheduler_.Submit(Ask("c", 10, 5), &c_));    // 1 block: would fit.

  Step();

  EXPECT_FALSE(c_.admitted.has_value());
}

TEST_F(SchedulerTest, AdmitsHigherPrioritiesFirstAndInOrderWithinOne) {
  ASSERT_OK(scheduler_.Submit(Ask("a", 3), &a_));
  Request lowest = Ask("b", 3);
  lowest.priority = 1;
  ASSERT_OK(scheduler_.Submit(lowest, &b_));
  Request highest = Ask("c", 3);
  highest.priority = kHighestPriority;
  ASSERT_OK(scheduler_.Submit(highest, &c_));

  Step();

  EXPECT_TRUE(c_.admitted.has_value());
  EXPECT_TRUE(a_.admitted.has_value());
  EXPECT_FALSE(b_.admitted.has_value());
}

TEST_F(SchedulerTest, CountsAnUnsetPriorityAsTheNormalOne) {
  Request low = Ask("a", 3);
  low.priority = kNormalPriority - 1;
  ASSERT_OK(scheduler_.Submit(low, &a_));
  Request normal = Ask("b", 3);
  normal.priority = kNormalPriority;
  ASSERT_OK(scheduler_.Submit(normal, &b_));
  ASSERT_OK(scheduler_.Submit(Ask("c", 3), &c_));

  Step();

  EXPECT_TRUE(b_.admitted.has_value() && c_.admitted.has_value());
  EXPECT_FALSE(a_.admitted.has_value());
}

TEST_F(SchedulerTest, TellsHowLongARequestWaited) {
  ASSERT_OK(scheduler_.Submit(Ask("a", 3), &a_));
  clock_.Advance(2.5);

  Step();

  EXPECT_THAT(a_.admitted, Optional(2.5));
}

TEST_F(SchedulerTest, FinishesAtMaxTokens) {
  ASSERT_OK(scheduler_.Submit(Ask("a", 3, 2), &a_));

  StepUntilIdle();

  EXPECT_THAT(a_.ids, ElementsAre(500, 500));
  EXPECT_EQ(a_.finished, FinishReason::kLength);
  EXPECT_EQ(a_.stop_id, 0);
  EXPECT_EQ(a_.ends, 1);
}

TEST_F(SchedulerTest, PushesTheStopTokenAndFinishes) {
  Request request = Ask("a", 3);
  request.stop_ids = {8, 9};
  ASSERT_OK(scheduler_.Submit(request, &a_));
  Step(7);

  Step(9);

  EXPECT_THAT(a_.ids, ElementsAre(7, 9));
  EXPECT_EQ(a_.finished, FinishReason::kStop);
  EXPECT_EQ(a_.stop_id, 9);
}

TEST_F(SchedulerTest, StopsAtAStopIdRatherThanAtTheLengthItReachesToo) {
  Request request = Ask("a", 3, 1);
  request.stop_ids = {9};
  ASSERT_OK(scheduler_.Submit(request, &a_));

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
  ASSERT_OK(scheduler_.Submit(Ask("a", 3), &a_));

  StepUntilIdle();

  EXPECT_EQ(scheduler_.counts().kv_blocks_used, 0);
  EXPECT_EQ(scheduler_.counts().state_slots_used, 0);
  EXPECT_EQ(scheduler_.counts().running, 0);
}

TEST_F(SchedulerTest, ReplaysEmittedIdsAfterThePromptWithoutPushingThem) {
  Request request = Ask("a", 2);
  request.emitted_ids = {70, 71};
  ASSERT_OK(scheduler_.Submit(request, &a_));

  const StepPlan plan = Step(72);
  StepUntilIdle();

  EXPECT_THAT(plan.sequences[0].token_ids, ElementsAre(0, 1, 70, 71));
  EXPECT_THAT(a_.ids, ElementsAre(72, 500));  // 4 with the emitted ones.
}

TEST_F(SchedulerTest, SamplesAResumedRequestAtTheSamePosition) {
  ASSERT_OK(scheduler_.Submit(Ask("a", 2), &a_));
  Step();
  Step();
  (void)scheduler_.Plan();
  ASSERT_EQ(scheduler_.samples().size(), 1u);
  const int64_t position = scheduler_.samples()[0].position;
  scheduler_.CloseAll(absl::UnavailableError("lost"));
  Request resumed = Ask("a", 2);
  resumed.emitted_ids = {500, 500};
  ASSERT_OK(scheduler_.Submit(resumed, &b_));

  (void)scheduler_.Plan();

  EXPECT_EQ(position, 4);
  EXPECT_EQ(scheduler_.samples()[0].position, position);
}

TEST_F(SchedulerTest, FinishesARequestWhoseEmittedIdsAreComplete) {
  Request stopped = Ask("a", 2);
  stopped.stop_ids = {9};
  stopped.emitted_ids = {9};
  Request full = Ask("b", 2, 1);
  full.emitted_ids = {3};

  ASSERT_OK(scheduler_.Submit(stopped, &a_));
  ASSERT_OK(scheduler_.Submit(full, &b_));

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
  ASSERT_OK(scheduler_.Submit(request, &a_));

  (void)scheduler_.Plan();

  ASSERT_EQ(scheduler_.samples().size(), 1u);
  const SampleSpec& spec = scheduler_.samples()[0];
  EXPECT_EQ(spec.sampling.seed, 99u);
  EXPECT_EQ(spec.sampling.choice_index, 2);
  EXPECT_EQ(spec.position, 3);
  EXPECT_TRUE(spec.logprobs);
  EXPECT_EQ(spec.top_n, 7);
}

TEST_F(SchedulerTest, DropsARunningRequestWhoseClientIsGone) {
  ASSERT_OK(scheduler_.Submit(Ask("a", 3), &a_));
  Step();
  a_.gone = true;

  EXPECT_TRUE(Step().sequences.empty());

  EXPECT_THAT(a_.error, StatusIs(absl::StatusCode::kCancelled, _));
  EXPECT_EQ(ReasonOf(a_.error).word, "CLIENT");
  EXPECT_EQ(scheduler_.counts().kv_blocks_used, 0);
}

TEST_F(SchedulerTest, DropsAWaitingRequestThatIsCancelled) {
  ASSERT_OK(scheduler_.Submit(Ask("a", 3), &a_));
  ASSERT_OK(scheduler_.Submit(Ask("b", 3), &b_));
  ASSERT_OK(scheduler_.Submit(Ask("c", 3), &c_));
  Step();

  EXPECT_TRUE(scheduler_.Cancel("c"));
  Step();

  EXPECT_THAT(c_.error, StatusIs(absl::StatusCode::kCancelled, _));
  EXPECT_FALSE(c_.admitted.has_value());
}

TEST_F(SchedulerTest, CancelsEveryChoiceOfARequest) {
  Request second = Ask("a", 3);
  second.sampling.choice_index = 1;
  ASSERT_OK(scheduler_.Submit(Ask("a", 3), &a_));
  ASSERT_OK(scheduler_.Submit(second, &b_));

  EXPECT_TRUE(scheduler_.Cancel("a"));

  EXPECT_TRUE(Step().sequences.empty());
  EXPECT_EQ(a_.ends + b_.ends, 2);
}

TEST_F(SchedulerTest, FindsNoRequestToCancelThatIsNotThere) {
  EXPECT_FALSE(scheduler_.Cancel("a"));
}

TEST_F(SchedulerTest, EndsOnlyTheSequenceWhoseSamplingFailed) {
  ASSERT_OK(scheduler_.Submit(Ask("a", 3), &a_));
  ASSERT_OK(scheduler_.Submit(Ask("b", 3), &b_));

  const StepPlan plan = scheduler_.Plan();
  scheduler_.Commit(plan, {absl::InternalError("not a number"), Token{}});

  EXPECT_THAT(a_.error, StatusIs(absl::StatusCode::kInternal, _));
  EXPECT_EQ(b_.ends, 0);
  EXPECT_EQ(scheduler_.counts().running, 1);
}

TEST_F(SchedulerTest, RefusesWhatExceedsTheQueue) {
  ASSERT_OK(scheduler_.Submit(Ask("a", 3), &a_));
  ASSERT_OK(scheduler_.Submit(Ask("b", 3), &b_));
  ASSERT_OK(scheduler_.Submit(Ask("c", 3), &c_));
  ASSERT_OK(scheduler_.Submit(Ask("d", 3), &d_));

  const absl::Status status = scheduler_.Submit(Ask("e", 3), &e_);

  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted,
                               "4 sequences are active; at most 4"));
  EXPECT_EQ(ReasonOf(status).word, "QUEUE_FULL");
  EXPECT_EQ(e_.ends, 0);
}

TEST_F(SchedulerTest, RefusesABadRequestAndLeavesItsSinkAlone) {
  EXPECT_THAT(scheduler_.Submit(Ask("a", 0), &a_),
              StatusIs(absl::StatusCode::kInvalidArgument, _));
  EXPECT_EQ(a_.ends, 0);
}

TEST_F(SchedulerTest, ClosesEverythingWithTheGivenError) {
  for (RecordingSink* sink : {&a_, &b_, &c_})
    ASSERT_OK(scheduler_.Submit(Ask("r", 3), sink));
  (void)scheduler_.Plan();

  scheduler_.CloseAll(absl::UnavailableError("rank 1 is lost"));

  for (const RecordingSink* sink : {&a_, &b_, &c_})
    EXPECT_THAT(sink->error,
                StatusIs(absl::StatusCode::kUnavailable, "rank 1 is lost"));
  EXPECT_EQ(scheduler_.counts().kv_blocks_used, 0);
  EXPECT_EQ(scheduler_.counts().waiting, 0);
}

TEST_F(SchedulerTest, NamesWhatEndedOnce) {
  ASSERT_OK(scheduler_.Submit(Ask("a", 3, 1), &a_));
  Step();

  EXPECT_THAT(scheduler_.TakeEnded(), ElementsAre(RequestKey{"a", 0}));
  EXPECT_THAT(scheduler_.TakeEnded(), ElementsAre());
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
  ASSERT_OK(scheduler_.Submit(Ask("a", 3), &a_));
  Step();
  (void)scheduler_.Plan();

  EXPECT_EQ(scheduler_.counts().steps, 1);
}

TEST_F(SchedulerTest, MakesPlansThatEveryRankAccepts) {
  ASSERT_OK(scheduler_.Submit(Ask("a", 30, 200), &a_));
  ASSERT_OK(scheduler_.Submit(Ask("b", 2, 2), &b_));
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
  ASSERT_OK(scheduler_.Submit(Ask("a", 3), &a_));
  (void)scheduler_.Plan();

  EXPECT_DEATH((void)scheduler_.Plan(), "plan_outstanding_");
}

TEST_F(SchedulerDeathTest, RefusesACommitWithTooFewTokens) {
  ASSERT_OK(scheduler_.Submit(Ask("a", 3), &a_));
  const StepPlan plan = scheduler_.Plan();

  EXPECT_DEATH(scheduler_.Commit(plan, {}), "samples_");
}

}  // namespace
}  // namespace phalanx
