// What is asked of rows of logits: prompt log-probabilities, and tokens.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/worker/scheduler/scheduler_rig.h"

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

class SchedulerScoring : public SchedulerRig {
 protected:
  static Request Scored(int64_t prompt, int64_t max_tokens) {
    Request request = Ask("a", prompt, max_tokens);
    request.prompt_logprobs = true;
    request.top_n = 3;
    return request;
  }
  static SchedulerLimits Rows(int64_t logit_rows) {
    SchedulerLimits limits = Limits();
    limits.logit_rows = logit_rows;
    return limits;
  }
  static std::vector<int32_t> Ids(const std::vector<Token>& tokens) {
    std::vector<int32_t> ids;
    for (const Token& token : tokens) ids.push_back(token.id);
    return ids;
  }

  RecordingSink a_, b_;
};

TEST_F(SchedulerScoring, AsksForEachTokenOfThePromptAndThenDraws) {
  Use(Rows(10));
  Submit(Scored(3, 4), a_);

  const StepPlan plan = scheduler().Plan();

  EXPECT_EQ(plan.sequences[0].logit_rows, 3);
  const auto samples = scheduler().samples();
  ASSERT_THAT(samples, SizeIs(3));
  EXPECT_EQ(samples[0].given, 1);
  EXPECT_EQ(samples[0].position(), 1);
  EXPECT_EQ(samples[1].given, 2);
  EXPECT_TRUE(samples[1].logprobs);
  EXPECT_EQ(samples[1].top_n, 3);
  EXPECT_EQ(samples[2].given, std::nullopt);
  EXPECT_FALSE(samples[2].logprobs);
}

TEST_F(SchedulerScoring, PushesThePromptBeforeTheFirstToken) {
  Use(Rows(10));
  Submit(Scored(5, 2), a_);

  StepUntilIdle();

  EXPECT_THAT(Ids(a_.prompt), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(a_.ids.size(), 2u);
}

TEST_F(SchedulerScoring, FinishesAfterThePromptWhereNoTokenIsAskedFor) {
  Use(Rows(10));
  Submit(Scored(5, 0), a_);

  const StepPlan plan = Step();

  EXPECT_EQ(plan.token_count(), 4);
  EXPECT_THAT(Ids(a_.prompt), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(a_.finished, FinishReason::kLength);
  EXPECT_TRUE(a_.ids.empty());
}

TEST_F(SchedulerScoring, FinishesAtOnceWhereThereIsNothingToScore) {
  Submit(Scored(1, 0), a_);

  EXPECT_EQ(a_.finished, FinishReason::kLength);
}

TEST_F(SchedulerScoring, KeepsToTheRowsOfLogitsOfAStep) {
  Use(Rows(3));  // Of these, one is set aside for b.
  Submit(Ask("b", 1, 50), b_);
  Step();
  Submit(Scored(6, 0), a_);

  EXPECT_THAT(RowsOf(Step()), ElementsAre(1, 2));
  EXPECT_THAT(RowsOf(Step()), ElementsAre(1, 2));
  EXPECT_THAT(RowsOf(Step()), ElementsAre(1, 1));
  EXPECT_THAT(Ids(a_.prompt), ElementsAre(1, 2, 3, 4, 5));
}

TEST_F(SchedulerScoring, ScoresNothingForAResumedRequest) {
  Use(Rows(10));
  Request request = Scored(3, 4);
  request.emitted_ids = {9};
  Submit(request, a_);

  Step();

  EXPECT_TRUE(a_.prompt.empty());
  EXPECT_EQ(a_.ids.size(), 1u);
}

TEST_F(SchedulerScoring, ScoresNothingTwiceAfterAPreemption) {
  SchedulerLimits limits = Rows(10);
  limits.max_running = 1;
  Use(limits);
  Request low = Scored(20, 2);
  low.priority = 1;
  Submit(low, a_);
  Step();
  ASSERT_THAT(a_.prompt, SizeIs(8));
  Request high = Ask("b", 2, 1);
  high.priority = 5;
  Submit(high, b_);

  StepUntilIdle();

  EXPECT_EQ(a_.preemptions, 1);
  EXPECT_THAT(a_.prompt, SizeIs(19));
  for (int32_t i = 0; i < 19; ++i) EXPECT_EQ(a_.prompt[i].id, i + 1);
}

TEST_F(SchedulerScoring, HoldsStopIdsBackBeforeMinTokens) {
  Request request = Ask("a", 3, 4);
  request.stop_ids = {7, 8};
  request.min_tokens = 1;
  Submit(request, a_);

  (void)scheduler().Plan();
  EXPECT_THAT(scheduler().samples()[0].held_back, ElementsAre(7, 8));
  scheduler().CloseAll(absl::AbortedError("next"));

  request.emitted_ids = {3};
  Submit(request, b_);
  (void)scheduler().Plan();
  EXPECT_THAT(scheduler().samples()[0].held_back, ElementsAre());
}

}  // namespace
}  // namespace phalanx
