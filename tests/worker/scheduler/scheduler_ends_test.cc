// Deadlines, slow readers, and groups that are lost.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/reason.h"
#include "tests/worker/scheduler/scheduler_rig.h"

namespace phalanx {
namespace {

using testing::_;

class SchedulerEnds : public SchedulerRig {
 protected:
  Request Timed(const std::string& id, double seconds) {
    Request request = Ask(id, 20, 100);
    request.timeout_seconds = seconds;
    return request;
  }
  // Both places are taken, for long.
  void FillUp() {
    Submit(Ask("x", 10, 100), x_);
    Submit(Ask("y", 10, 100), y_);
    Steps(4);
  }

  RecordingSink a_, b_, x_, y_;
};

TEST_F(SchedulerEnds, ClosesWhatIsLateInTheQueue) {
  FillUp();
  Submit(Timed("a", 2), a_);
  clock_.Advance(1.9);
  Step();
  EXPECT_EQ(a_.ends, 0);
  clock_.Advance(0.2);

  Step();

  EXPECT_THAT(a_.error, StatusIs(absl::StatusCode::kDeadlineExceeded,
                                 "the timeout of 2 s passed in the queue"));
  EXPECT_EQ(ReasonOf(a_.error).word, "IN_QUEUE");
}

TEST_F(SchedulerEnds, ClosesWhatIsLateInItsPrefill) {
  Submit(Timed("a", 2), a_);
  Step();
  clock_.Advance(2);

  Step();

  EXPECT_EQ(ReasonOf(a_.error).word, "IN_PREFILL");
  EXPECT_EQ(a_.error.message(),
            "the timeout of 2 s passed after 8 of 20 tokens of the prompt");
}

TEST_F(SchedulerEnds, ClosesWhatIsLateInDecodeAndSaysHowFarItCame) {
  Submit(Timed("a", 2), a_);
  Steps(4);
  clock_.Advance(2);

  Step();

  EXPECT_EQ(ReasonOf(a_.error).word, "IN_DECODE");
  EXPECT_EQ(ReasonOf(a_.error).metadata["tokens_done"], "2");
  EXPECT_EQ(scheduler().counts().kv_blocks_used, 0);
}

TEST_F(SchedulerEnds, FinishesAtItsMaxTimeWithWhatItHas) {
  Request request = Ask("a", 2, 100);
  request.max_time_seconds = 1;
  Submit(request, a_);
  Steps(3);
  clock_.Advance(1);

  Step();

  EXPECT_EQ(a_.finished, FinishReason::kTimeLimit);
  EXPECT_EQ(a_.ids.size(), 3u);
}

TEST_F(SchedulerEnds, FinishesAtItsMaxTimeInTheQueueWithNothing) {
  FillUp();
  Request request = Ask("a", 2, 100);
  request.max_time_seconds = 1;
  Submit(request, a_);
  clock_.Advance(1);

  Step();

  EXPECT_EQ(a_.finished, FinishReason::kTimeLimit);
  EXPECT_FALSE(a_.admitted.has_value());
}

TEST_F(SchedulerEnds, ClosesWhatWaitsLongerThanAnyMay) {
  SchedulerLimits limits = Limits();
  limits.max_wait_seconds = 3;
  Use(limits);
  FillUp();
  Submit(Ask("a", 2), a_);
  clock_.Advance(3);

  Step();

  EXPECT_THAT(a_.error, StatusIs(absl::StatusCode::kResourceExhausted, _));
  EXPECT_EQ(ReasonOf(a_.error).word, "QUEUE_TIMEOUT");
  EXPECT_EQ(ReasonOf(a_.error).metadata["limit_seconds"], "3");
  EXPECT_EQ(x_.ends, 0);
}

TEST_F(SchedulerEnds, RefusesATimeoutThatTheQueueAloneExceeds) {
  // 40 full steps of 8 tokens, a second each.
  SchedulerLimits limits = Limits();
  limits.kv_blocks = 100;
  limits.max_model_len = 1000;
  Use(limits);
  Submit(Ask("x", 900, 2), x_);
  for (int i = 0; i < 40; ++i) {
    const StepPlan plan = scheduler().Plan();
    clock_.Advance(1);
    scheduler().Commit(plan, {});
  }
  Submit(Ask("y", 400, 2, 300), y_);

  const absl::Status status = scheduler().Submit(Timed("a", 100), &a_);
  EXPECT_OK(scheduler().Submit(Timed("b", 200), &b_));

  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted, _));
  EXPECT_EQ(ReasonOf(status).word, "DEADLINE_UNMEETABLE");
  // 580 tokens of x and 400 of y, 8 a second.
  EXPECT_EQ(ReasonOf(status).metadata["estimate_seconds"], "122.5");
  EXPECT_EQ(a_.ends, 0);
}

TEST_F(SchedulerEnds, RefusesNoTimeoutBeforeItHasMeasured) {
  FillUp();
  Submit(Ask("a", 200), a_);

  EXPECT_OK(scheduler().Submit(Timed("b", 0.001), &b_));
}

TEST_F(SchedulerEnds, PausesWhatIsNotRead) {
  Submit(Ask("a", 2, 100), a_);
  Steps(2);
  a_.unread = true;
  EXPECT_TRUE(Step().sequences.empty());
  a_.unread = false;

  const StepPlan plan = Step();

  EXPECT_EQ(plan.sequences[0].past, 3);
}

TEST_F(SchedulerEnds, ParksWhatIsNotReadForLong) {
  Submit(Ask("a", 2, 100), a_);
  Steps(2);
  a_.unread = true;
  Step();
  clock_.Advance(Limits().park_seconds);

  Step();

  EXPECT_EQ(scheduler().counts().kv_blocks_used, 0);
  EXPECT_EQ(scheduler().counts().waiting, 1);
  EXPECT_EQ(a_.preemptions, 0);
  a_.unread = false;
  EXPECT_EQ(Step().sequences[0].past, 0);
  EXPECT_EQ(a_.ids.size(), 3u);
}

TEST_F(SchedulerEnds, ClosesWhatIsNeverRead) {
  Submit(Ask("a", 2, 100), a_);
  Submit(Ask("b", 2, 100), b_);
  Steps(2);
  a_.unread = true;
  Step();
  clock_.Advance(Limits().slow_reader_seconds);

  Step();

  EXPECT_THAT(a_.error, StatusIs(absl::StatusCode::kResourceExhausted, _));
  EXPECT_EQ(ReasonOf(a_.error).word, "SLOW_READER");
  EXPECT_EQ(b_.ends, 0);
}

TEST_F(SchedulerEnds, CountsTheTimeUnreadFromTheLastTimeItWasRead) {
  Submit(Ask("a", 2, 100), a_);
  for (int i = 0; i < 3; ++i) {
    a_.unread = true;
    Step();
    clock_.Advance(0.6 * Limits().slow_reader_seconds);
    a_.unread = false;
    Step();
  }

  EXPECT_EQ(a_.ends, 0);
}

TEST_F(SchedulerEnds, TellsWhoWasInTheStepThatWasLost) {
  Submit(Ask("a", 2, 100), a_);
  Submit(Ask("b", 2, 100), b_);
  Submit(Ask("x", 2, 100), x_);
  Steps(2);
  b_.unread = true;
  (void)scheduler().Plan();

  scheduler().CloseAll(absl::UnavailableError("lost"),
                       absl::UnavailableError("in step"));

  EXPECT_EQ(a_.error.message(), "in step");
  EXPECT_EQ(b_.error.message(), "lost");
  EXPECT_EQ(x_.error.message(), "lost");
}

TEST_F(SchedulerEnds, TellsNobodyOfAStepThatWasCommitted) {
  Submit(Ask("a", 2, 100), a_);
  Step();

  scheduler().CloseAll(absl::UnavailableError("lost"),
                       absl::UnavailableError("in step"));

  EXPECT_EQ(a_.error.message(), "lost");
}

TEST_F(SchedulerEnds, TellsHowLongTheOldestWaits) {
  FillUp();
  EXPECT_EQ(scheduler().counts().oldest_wait_seconds, 0);
  Submit(Ask("a", 2), a_);
  clock_.Advance(1.5);

  EXPECT_EQ(scheduler().counts().oldest_wait_seconds, 1.5);
}

}  // namespace
}  // namespace phalanx
