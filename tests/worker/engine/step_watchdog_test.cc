#include "worker/engine/step_watchdog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "common/reason.h"

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

constexpr int64_t kMaxRunning = 4;

// A plan of one sequence with so many rows.
StepPlan PlanOf(int64_t rows) {
  StepPlan plan;
  PlannedSequence sequence;
  sequence.token_ids.assign(rows, 1);
  plan.sequences.push_back(std::move(sequence));
  return plan;
}

// Writes down what it sees.
class Witness final : public StepObserver {
 public:
  void OnWarmUp(const StepPlan&) override { saw += "warm-up "; }
  void OnServing() override { saw += "serving "; }
  void OnStepBegin(const StepPlan&) override { saw += "begin "; }
  void OnStepEnd(const StepPlan&) override { saw += "end "; }
  void OnEpochEnd() override { saw += "over "; }

  std::string saw;
};

class StepWatchdogTest : public testing::Test {
 protected:
  using Calls = std::vector<std::pair<double, int64_t>>;

  void After(double seconds) {
    clock_.Advance(seconds);
    watchdog_.Tick();
  }

  ManualClock clock_;
  Witness witness_;
  Calls late_;
  Calls hopeless_;
  StepWatchdog watchdog_{{.step_seconds = 2, .max_running = kMaxRunning},
                         clock_,
                         witness_,
                         [this](double seconds, int64_t rows) {
                           late_.emplace_back(seconds, rows);
                         },
                         [this](double seconds, int64_t rows) {
                           hopeless_.emplace_back(seconds, rows);
                         }};
};

TEST_F(StepWatchdogTest, TellsOnceThatAStepIsLate) {
  watchdog_.OnStepBegin(PlanOf(1));
  After(1.9);
  EXPECT_THAT(late_, IsEmpty());
  After(0.25);
  After(0.25);
  EXPECT_THAT(late_, ElementsAre(Pair(testing::DoubleNear(2.15, 1e-9), 1)));
  EXPECT_THAT(hopeless_, IsEmpty());
}

TEST_F(StepWatchdogTest, GivesUpAThreadThatDoesNotComeBack) {
  watchdog_.OnStepBegin(PlanOf(1));
  After(2);
  After(1.9);
  EXPECT_THAT(hopeless_, IsEmpty());
  After(0.1);
  After(5);
  EXPECT_THAT(hopeless_, ElementsAre(Pair(testing::DoubleNear(4, 1e-9), 1)));
}

TEST_F(StepWatchdogTest, DoesNotGiveUpOneThatDoes) {
  watchdog_.OnStepBegin(PlanOf(1));
  After(2);
  watchdog_.OnEpochEnd();
  After(100);
  EXPECT_THAT(hopeless_, IsEmpty());
}

TEST_F(StepWatchdogTest, IsSilentBetweenSteps) {
  watchdog_.OnServing();
  After(1000);
  watchdog_.OnStepBegin(PlanOf(1));
  watchdog_.OnStepEnd(PlanOf(1));
  After(1000);
  watchdog_.OnEpochEnd();
  After(1000);
  EXPECT_THAT(late_, IsEmpty());
}

TEST_F(StepWatchdogTest, CountsEachStepFromItsOwnBeginning) {
  for (int i = 0; i < 5; ++i) {
    watchdog_.OnStepBegin(PlanOf(1));
    After(1.5);
    watchdog_.OnStepEnd(PlanOf(1));
  }
  EXPECT_THAT(late_, IsEmpty());
}

TEST_F(StepWatchdogTest, GivesPrefillAsManyTimesLongerAsItHasMoreRows) {
  watchdog_.OnStepBegin(PlanOf(3 * kMaxRunning));
  After(5.9);
  EXPECT_THAT(late_, IsEmpty());
  After(0.1);
  EXPECT_THAT(late_, ElementsAre(Pair(testing::DoubleNear(6, 1e-9), 12)));
}

TEST_F(StepWatchdogTest, WatchesWarmUpToo) {
  watchdog_.OnWarmUp(PlanOf(kMaxRunning));
  After(2);
  EXPECT_EQ(late_.size(), 1u);
  watchdog_.OnServing();
  After(100);
  EXPECT_THAT(hopeless_, IsEmpty());
}

TEST_F(StepWatchdogTest, TellsTheAgeOfTheStepThatRuns) {
  EXPECT_EQ(watchdog_.step_age_seconds(), 0);
  watchdog_.OnStepBegin(PlanOf(1));
  clock_.Advance(0.5);
  EXPECT_EQ(watchdog_.step_age_seconds(), 0.5);
  watchdog_.OnStepEnd(PlanOf(1));
  EXPECT_EQ(watchdog_.step_age_seconds(), 0);
}

TEST_F(StepWatchdogTest, PassesEverythingOn) {
  watchdog_.OnWarmUp(PlanOf(1));
  watchdog_.OnServing();
  watchdog_.OnStepBegin(PlanOf(1));
  watchdog_.OnStepEnd(PlanOf(1));
  watchdog_.OnEpochEnd();
  EXPECT_EQ(witness_.saw, "warm-up serving begin end over ");
}

TEST_F(StepWatchdogTest, LooksEightTimesInADecodeStep) {
  EXPECT_EQ(watchdog_.tick(), std::chrono::milliseconds(250));
}

// A collective that waits for a given rank.
class Waiting final : public Collective {
 public:
  explicit Waiting(int awaited) : awaited_(awaited) {}

  int rank() const override { return 1; }
  int size() const override { return 4; }
  int awaited_rank() const override { return awaited_; }
  void AllReduceSum(Tensor, Tensor) override {}
  void AllGather(Tensor, Tensor) override {}
  absl::Status Broadcast(std::string&) override { return absl::OkStatus(); }
  int64_t max_broadcast_bytes() const override { return 0; }
  absl::Status Barrier() override { return absl::OkStatus(); }
  void Abort(const absl::Status&) override {}
  absl::Status status() const override { return absl::OkStatus(); }

 private:
  const int awaited_;
};

TEST(LateStep, NamesTheRankThatIsWaitedFor) {
  const Reason reason = ReasonOf(LateStep(Waiting(3), 2.5));
  EXPECT_EQ(reason.word, "GROUP_LOST");
  EXPECT_EQ(reason.metadata.at("rank"), "3");
  EXPECT_EQ(reason.metadata.at("cause"), "step watchdog");
}

TEST(LateStep, NamesItsOwnRankIfThatWaitsForNobody) {
  EXPECT_EQ(ReasonOf(LateStep(Waiting(-1), 2.5)).metadata.at("rank"), "1");
}

}  // namespace
}  // namespace phalanx
