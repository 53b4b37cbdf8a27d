// Suspects: requests that were in the step that killed their group.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/worker/scheduler/scheduler_rig.h"

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

class SchedulerTrial : public SchedulerRig {
 protected:
  static Request Suspect(const std::string& id, int64_t prompt = 20) {
    Request request = Ask(id, prompt, 10);
    request.suspect = true;
    return request;
  }

  RecordingSink a_, b_, x_;
};

TEST_F(SchedulerTrial, TellsTheSuspectOnceAndWaitsUntilThatIsKnown) {
  a_.known = false;
  Submit(Suspect("a"), a_);

  EXPECT_TRUE(Step().sequences.empty());
  EXPECT_TRUE(Step().sequences.empty());

  EXPECT_EQ(a_.trials, 1);
  EXPECT_FALSE(a_.admitted.has_value());
}

TEST_F(SchedulerTrial, LetsOthersRunWhileItWaits) {
  a_.known = false;
  Submit(Suspect("a"), a_);
  Submit(Ask("x", 2, 50), x_);

  Steps(2);

  EXPECT_EQ(x_.ids.size(), 2u);
}

TEST_F(SchedulerTrial, RunsTheSuspectAloneUntilItsFirstToken) {
  Submit(Ask("x", 2, 50), x_);
  Step();
  Submit(Suspect("a"), a_);

  for (int i = 0; i < 3; ++i) {  // 20 rows, 8 a step.
    const StepPlan plan = Step();
    ASSERT_THAT(plan.sequences, SizeIs(1));
    EXPECT_EQ(plan.sequences[0].past, 8 * i);
  }

  EXPECT_EQ(x_.ids.size(), 1u);
  EXPECT_EQ(a_.ids.size(), 1u);
  EXPECT_THAT(RowsOf(Step()), ElementsAre(1, 1));
}

TEST_F(SchedulerTrial, TriesOneAfterTheOther) {
  Submit(Suspect("a", 3), a_);
  Submit(Suspect("b", 3), b_);
  Step();
  EXPECT_EQ(a_.ids.size(), 1u);
  EXPECT_EQ(b_.trials, 0);

  Step();

  EXPECT_EQ(b_.trials, 1);
  EXPECT_EQ(b_.ids.size(), 1u);
  EXPECT_EQ(a_.ids.size(), 1u);
}

TEST_F(SchedulerTrial, GoesOnWithTheNextWhenASuspectLeaves) {
  a_.known = false;
  Submit(Suspect("a"), a_);
  Submit(Suspect("b", 3), b_);
  Step();
  a_.gone = true;

  Step();

  EXPECT_EQ(b_.ids.size(), 1u);
}

TEST_F(SchedulerTrial, AdmitsNobodyBeforeASuspectThatIsReady) {
  SchedulerLimits limits = Limits();
  limits.max_running = 1;
  limits.max_waiting = 5;
  Use(limits);
  Submit(Ask("x", 2, 2), x_);
  Step();
  Submit(Ask("b", 2), b_);
  Submit(Suspect("a", 3), a_);

  Steps(2);

  EXPECT_EQ(a_.ids.size(), 1u);
  EXPECT_FALSE(b_.admitted.has_value());
}

}  // namespace
}  // namespace phalanx
