// Prefixes that requests share.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "common/reason.h"
#include "tests/worker/scheduler/scheduler_rig.h"

namespace phalanx {
namespace {

using testing::SizeIs;

class SchedulerPrefix : public SchedulerRig {
 protected:
  SchedulerPrefix() { Use(WideLimits()); }

  // `shared` common tokens and `own` others, with an anchor in between.
  static Request Chat(const std::string& id, int64_t shared, int64_t own,
                      int32_t salt = 0) {
    Request request = Ask(id, shared, 2);
    for (int64_t i = 0; i < own; ++i)
      request.prompt_ids.push_back(
          static_cast<int32_t>((std::hash<std::string>()(id) + 7 * i) % 1000));
    request.anchors = {static_cast<int32_t>(shared)};
    request.cache.salt = std::string(salt, 'x');
    return request;
  }
  void Finish(Request request, RecordingSink& sink) {
    Submit(std::move(request), sink);
    StepUntilIdle();
    ASSERT_TRUE(sink.finished.has_value());
  }

  RecordingSink a_, b_, c_;
};

TEST_F(SchedulerPrefix, BeginsAtTheLastAnchorThatIsKept) {
  Finish(Chat("a", 200, 30), a_);
  Submit(Chat("b", 200, 30), b_);

  const StepPlan plan = Step();

  EXPECT_EQ(b_.cached, 200);
  ASSERT_THAT(plan.sequences, SizeIs(1));
  EXPECT_EQ(plan.sequences[0].past, 200);
  EXPECT_EQ(plan.token_count(), 30);
  ASSERT_THAT(plan.state_restores, SizeIs(1));
  EXPECT_EQ(plan.state_restores[0].to, plan.sequences[0].state_slot);
  // 200 is 8 rows into the fourth block, which the sequence writes.
  ASSERT_THAT(plan.block_copies, SizeIs(1));
  EXPECT_EQ(plan.block_copies[0].to, plan.sequences[0].block_table[3]);
}

TEST_F(SchedulerPrefix, CopiesNoBlockWhereTheAnchorIsItsEnd) {
  Finish(Chat("a", 192, 30), a_);
  Submit(Chat("b", 192, 30), b_);

  const StepPlan plan = Step();

  EXPECT_EQ(b_.cached, 192);
  EXPECT_TRUE(plan.block_copies.empty());
}

TEST_F(SchedulerPrefix, AlwaysComputesTheLastToken) {
  Request request = Ask("a", 200);
  request.anchors = {200};
  Finish(request, a_);
  Submit(request, b_);

  Step();

  EXPECT_EQ(b_.cached, 0);
}

TEST_F(SchedulerPrefix, SharesNothingBetweenSalts) {
  Finish(Chat("a", 200, 30, 0), a_);
  Submit(Chat("b", 200, 30, 1), b_);

  Step();

  EXPECT_EQ(b_.cached, 0);
}

TEST_F(SchedulerPrefix, TakesNothingForWhatBypassesTheCache) {
  Finish(Chat("a", 200, 30), a_);
  Request request = Chat("b", 200, 30);
  request.cache.bypass = true;
  Submit(request, b_);

  EXPECT_EQ(Step().token_count(), 230);
}

TEST_F(SchedulerPrefix, TakesNothingForAPromptThatIsScored) {
  Finish(Chat("a", 200, 30), a_);
  Request request = Chat("b", 200, 3);
  request.prompt_logprobs = true;
  Submit(request, b_);

  EXPECT_EQ(Step().sequences[0].past, 0);
}

TEST_F(SchedulerPrefix, TakesFromAPromptThatIsScored) {
  Request request = Chat("a", 200, 30);
  request.prompt_logprobs = true;
  Finish(request, a_);
  Submit(Chat("b", 200, 30), b_);

  Step();

  EXPECT_EQ(b_.cached, 200);
}

TEST_F(SchedulerPrefix, UsesItForAReplay) {
  Finish(Chat("a", 200, 30), a_);
  Request request = Chat("b", 200, 30);
  request.emitted_ids = {5};
  Submit(request, b_);

  EXPECT_EQ(Step().token_count(), 31);
}

TEST_F(SchedulerPrefix, WaitsForAPrefixThatIsBeingComputed) {
  Submit(Chat("a", 1000, 30), a_);
  Submit(Chat("b", 1000, 30), b_);
  Submit(Ask("c", 10, 2, 500), c_);

  Step();

  EXPECT_FALSE(b_.admitted.has_value());
  EXPECT_TRUE(c_.admitted.has_value());  // It does not stand in the way.
  Steps(2);
  EXPECT_EQ(b_.cached, 1000);
}

TEST_F(SchedulerPrefix, DoesNotWaitForWhatSavesLittle) {
  Submit(Chat("a", 60, 600), a_);
  Submit(Chat("b", 60, 600), b_);

  Step();

  EXPECT_TRUE(b_.admitted.has_value());
}

TEST_F(SchedulerPrefix, WaitsNoMoreWhenTheOtherIsGone) {
  Submit(Chat("a", 1000, 30), a_);
  Submit(Chat("b", 1000, 30), b_);
  Step();
  a_.gone = true;

  Step();

  EXPECT_TRUE(b_.admitted.has_value());
  EXPECT_EQ(b_.cached, 0);
}

TEST_F(SchedulerPrefix, WaitsForNobodyOfAnotherSalt) {
  Submit(Chat("a", 1000, 30, 1), a_);
  Submit(Chat("b", 1000, 30, 2), b_);

  Step();

  EXPECT_TRUE(b_.admitted.has_value());
}

TEST_F(SchedulerPrefix, ComputesTheSystemPromptOfFiftyRequestsOnce) {
  for (int i = 0; i < 50; ++i)
    Submit(Chat("chat" + std::to_string(i), 2000, 20), NewSink());

  int64_t rows = 0;
  while (true) {
    const StepPlan plan = Step();
    if (plan.sequences.empty()) break;
    rows += plan.token_count();
  }

  // Each has 20 tokens of its own and makes 2, of which one is fed back.
  EXPECT_EQ(rows, 2000 + 50 * 21);
}

TEST_F(SchedulerPrefix, ComputesThePromptOfSeveralChoicesOnce) {
  for (int i = 0; i < 4; ++i) {
    Request request = Chat("r", 100, 200);
    request.sampling.choice_index = i;
    request.anchors = {100, 299};
    Submit(request, NewSink());
  }

  int64_t rows = 0;
  for (StepPlan plan = Step(); !plan.sequences.empty(); plan = Step())
    rows += plan.token_count();

  EXPECT_EQ(rows, 299 + 4 * 2);
}

TEST_F(SchedulerPrefix, CountsWhatWasLookedForAndFound) {
  Finish(Chat("a", 200, 30), a_);
  Finish(Chat("b", 200, 30), b_);

  EXPECT_EQ(scheduler().counts().prefix_queried_tokens, 460);
  EXPECT_EQ(scheduler().counts().prefix_hit_tokens, 200);
  EXPECT_EQ(scheduler().counts().state_slots_snapshot, 1);
  EXPECT_EQ(scheduler().counts().kv_blocks_reusable, 4);
}

TEST_F(SchedulerPrefix, DropsWhatARequestKeptWhoseLogitsAreBroken) {
  Submit(Chat("a", 200, 30), a_);
  Step();
  const StepPlan plan = scheduler().Plan();
  scheduler().Commit(plan, {ReasonedError(absl::StatusCode::kInternal,
                                          "NON_FINITE_LOGITS", "NaN")});

  EXPECT_EQ(ReasonOf(a_.error).word, "NON_FINITE_LOGITS");
  EXPECT_EQ(scheduler().counts().state_slots_snapshot, 0);
  EXPECT_EQ(scheduler().counts().kv_blocks_reusable, 0);
}

TEST_F(SchedulerPrefix, GivesUpWhatItKeptForWhatRuns) {
  SchedulerLimits limits = WideLimits();
  limits.max_model_len = 256;
  limits.kv_blocks = 4;
  Use(limits);
  Finish(Chat("a", 200, 30), a_);

  Finish(Ask("b", 250, 5, 500), b_);

  EXPECT_EQ(scheduler().counts().kv_blocks_reusable, 0);
}

}  // namespace
}  // namespace phalanx
