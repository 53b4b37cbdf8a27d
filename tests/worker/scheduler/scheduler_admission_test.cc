// Who gets memory, and who gives it up.

#include <gtest/gtest.h>

#include <string>

#include "tests/worker/scheduler/scheduler_rig.h"

namespace phalanx {
namespace {

// Two or three may run; four blocks of 64 tokens.
class SchedulerAdmission : public SchedulerRig {
 protected:
  SchedulerAdmission() { Use(Small(3)); }
  static SchedulerLimits Small(int64_t running) {
    SchedulerLimits limits = Limits();
    limits.max_running = limits.state_slots = running;
    limits.max_waiting = 20;
    limits.prefill_chunk = limits.step_tokens = 300;
    return limits;
  }
  static Request Least(const std::string& id, int64_t prompt, int64_t least) {
    Request request = Ask(id, prompt, least);
    request.min_tokens = least;
    return request;
  }
  static Request Of(const std::string& key, const std::string& id,
                    int64_t prompt, int priority = 0) {
    Request request = Ask(id, prompt, 1);
    request.key = key;
    request.priority = priority;
    return request;
  }

  RecordingSink a_, b_, c_, d_, e_;
};

TEST_F(SchedulerAdmission, WaitsForBlocksOfWhatTheRequestMustMake) {
  Submit(Least("a", 10, 150), a_);  // 3 blocks.
  Submit(Least("b", 10, 60), b_);   // 2 blocks.
  Step();
  EXPECT_FALSE(b_.admitted.has_value());
  a_.gone = true;

  Step();

  EXPECT_TRUE(b_.admitted.has_value());
}

TEST_F(SchedulerAdmission, DoesNotWaitForWhatTheRequestMayMake) {
  Submit(Ask("a", 10, 200), a_);
  Submit(Ask("b", 10, 200), b_);

  Step();

  EXPECT_TRUE(a_.admitted.has_value() && b_.admitted.has_value());
}

TEST_F(SchedulerAdmission, TakesBlocksAsTheSequenceGrows) {
  Submit(Ask("a", 10, 200), a_);
  Step();
  EXPECT_EQ(scheduler().counts().kv_blocks_used, 1);

  Steps(55);

  EXPECT_EQ(scheduler().counts().kv_blocks_used, 2);
}

TEST_F(SchedulerAdmission, LetsNobodyOvertakeTheOneWhoseTurnItIs) {
  Submit(Least("a", 10, 150), a_);  // 3 blocks.
  Submit(Least("b", 10, 60), b_);   // 2 blocks: waits.
  Submit(Ask("c", 10, 5), c_);      // 1 block: would fit.

  Step();

  EXPECT_FALSE(c_.admitted.has_value());
}

TEST_F(SchedulerAdmission, PreemptsTheNewestWhereBlocksRunOut) {
  Submit(Ask("a", 10, 200), a_);
  Submit(Ask("b", 10, 200), b_);

  while (b_.preemptions == 0) Step();

  EXPECT_EQ(a_.preemptions, 0);
  EXPECT_EQ(scheduler().counts().preempted_for_kv, 1);
  EXPECT_EQ(scheduler().counts().waiting, 1);
}

TEST_F(SchedulerAdmission, PreemptsTheLowestPriorityBeforeTheNewest) {
  Request low = Ask("a", 10, 200);
  low.priority = 1;
  Submit(low, a_);
  Submit(Ask("b", 10, 200), b_);

  while (a_.preemptions + b_.preemptions == 0) Step();

  EXPECT_EQ(a_.preemptions, 1);
}

TEST_F(SchedulerAdmission, ReplaysThePreemptedAndPushesNothingTwice) {
  Submit(Ask("a", 10, 200), a_);
  Submit(Ask("b", 10, 200), b_);
  while (b_.preemptions == 0) Step(7);
  const size_t before = b_.ids.size();
  while (a_.ends == 0) Step(7);
  const StepPlan replay = Step(8);
  StepUntilIdle();

  EXPECT_EQ(replay.sequences[0].token_ids.size(), 10 + before);
  ASSERT_EQ(b_.ids.size(), 200u);
  EXPECT_EQ(b_.ids[before - 1], 7);
  EXPECT_EQ(b_.ids[before], 8);
}

TEST_F(SchedulerAdmission, NeverPreemptsMoreThanFourTimes) {
  Request low = Ask("a", 10, 100);
  low.priority = 1;
  Use(Small(1));
  Submit(low, a_);
  for (int i = 0; i < 6; ++i) {
    Step();
    Request request = Ask("h", 10, 1);
    request.priority = 5;
    RecordingSink& high = NewSink();
    Submit(request, high);
    StepUntilEnd(high);
  }

  EXPECT_EQ(a_.preemptions, kMaxPreemptions);
}

TEST_F(SchedulerAdmission, TakesThePlaceOfLowerPriorities) {
  Use(Small(2));
  Request low = Ask("a", 10, 100);
  low.priority = 1;
  Submit(Ask("b", 10, 100), b_);
  Submit(low, a_);
  Step();
  Request high = Ask("c", 10, 100);
  high.priority = 4;
  Submit(high, c_);

  Step();

  EXPECT_EQ(a_.preemptions, 1);
  EXPECT_EQ(b_.preemptions, 0);
  EXPECT_EQ(c_.ids.size(), 1u);
  EXPECT_EQ(scheduler().counts().preempted_for_priority, 1);
}

TEST_F(SchedulerAdmission, TakesNoPlaceOfEqualPriorities) {
  Use(Small(1));
  Submit(Ask("a", 10, 100), a_);
  Step();
  Submit(Ask("b", 10, 100), b_);

  Step();

  EXPECT_EQ(a_.preemptions, 0);
}

TEST_F(SchedulerAdmission, PreemptsNobodyForWhatWouldNotFitAnyway) {
  Request low = Ask("a", 10, 10);
  low.priority = 1;
  Request highest = Least("b", 10, 100);  // 2 blocks, which it keeps.
  highest.priority = kHighestPriority;
  Submit(low, a_);
  Submit(highest, b_);
  Step();
  Request high = Least("c", 10, 200);  // 4 blocks.
  high.priority = 4;
  Submit(high, c_);

  Step();

  EXPECT_EQ(a_.preemptions, 0);
}

TEST_F(SchedulerAdmission, AdmitsHigherPrioritiesFirst) {
  Use(Small(1));
  Submit(Of("", "a", 3, 1), a_);
  Submit(Of("", "b", 3, 5), b_);
  Submit(Of("", "c", 3, 3), c_);

  Steps(2);

  EXPECT_EQ(b_.ends, 1);
  EXPECT_EQ(c_.ends, 1);
  EXPECT_EQ(a_.ends, 0);
}

TEST_F(SchedulerAdmission, CountsAnUnsetPriorityAsTheNormalOne) {
  Use(Small(1));
  Submit(Of("", "a", 3, kNormalPriority - 1), a_);
  Submit(Of("", "b", 3, 0), b_);

  Step();

  EXPECT_EQ(b_.ends, 1);
}

TEST_F(SchedulerAdmission, RaisesWhatWaitsByOneForEachAgeingSeconds) {
  Use(Small(1));
  Submit(Of("", "a", 3, 1), a_);
  clock_.Advance(4 * Limits().ageing_seconds);
  Submit(Of("", "b", 3, kHighestPriority), b_);

  Step();

  EXPECT_EQ(a_.ends, 1);
}

TEST_F(SchedulerAdmission, KeepsAgeBelowTheNextLevelBehind) {
  Use(Small(1));
  Submit(Of("", "a", 3, 1), a_);
  clock_.Advance(3.9 * Limits().ageing_seconds);
  Submit(Of("", "b", 3, kHighestPriority), b_);

  Step();

  EXPECT_EQ(b_.ends, 1);
}

// Bound: (kHighestPriority - priority) ageing_seconds, then nobody passes.
TEST_F(SchedulerAdmission, ServesTheLowestUnderAStreamOfTheHighest) {
  Use(Small(1));
  Submit(Of("", "low", 3, 1), a_);
  double waited = 0;
  while (a_.ends == 0) {
    RecordingSink& high = NewSink();
    Submit(Of("", "high", 3, kHighestPriority), high);
    Step();
    clock_.Advance(0.5);
    waited += 0.5;
    if (high.ends == 0) {
      high.gone = true;
      Step();
    }
    ASSERT_LE(waited, 4 * Limits().ageing_seconds + 1);
  }
}

TEST_F(SchedulerAdmission, TakesKeysInTurns) {
  Use(Small(1));
  Submit(Of("greedy", "g", 20), a_);
  Submit(Of("greedy", "g", 20), d_);
  Submit(Of("greedy", "g", 20), e_);
  Submit(Of("modest", "m", 20), b_);
  Submit(Of("modest", "m", 20), c_);

  Steps(4);

  EXPECT_EQ(a_.ends + d_.ends, 2);
  EXPECT_EQ(b_.ends + c_.ends, 2);
  EXPECT_EQ(e_.ends, 0);
}

TEST_F(SchedulerAdmission, CountsTokensNotRequestsOfAKey) {
  Use(Small(1));
  Submit(Of("long", "a", 60), a_);
  Submit(Of("long", "b", 60), b_);
  Submit(Of("short", "c", 10), c_);
  Submit(Of("short", "d", 10), d_);

  Steps(3);

  EXPECT_EQ(a_.ends, 1);
  EXPECT_EQ(b_.ends, 0);
  EXPECT_EQ(c_.ends + d_.ends, 2);
}

TEST_F(SchedulerAdmission, StarvesNoKeyUnderAStreamOfNewOnes) {
  Use(Small(1));
  Submit(Of("old", "a", 60), a_);
  Step();
  Submit(Of("new", "b", 60), b_);
  Submit(Of("old", "c", 60), c_);

  for (int step = 0; c_.ends == 0; ++step) {
    ASSERT_LT(step, 20);
    Submit(Of("new" + std::to_string(step), "d", 60), NewSink());
    Step();
  }
}

}  // namespace
}  // namespace phalanx
