#include "gateway/api/replay.h"

#include <gtest/gtest.h>

#include "common/reason.h"

namespace phalanx {
namespace {

using absl::StatusCode;
using Verdict = Replay::Verdict;

Loss LossOfReason(StatusCode code, const char* word,
                  std::map<std::string, std::string> metadata = {}) {
  return LossOf(ReasonedError(code, word, "why", std::move(metadata)),
                /*resumed=*/false);
}

TEST(LossOf, ALostGroupSaysWhoWasInTheStep) {
  EXPECT_EQ(LossOfReason(StatusCode::kUnavailable, "GROUP_LOST",
                         {{"in_step", "true"}}),
            Loss::kSuspect);
  EXPECT_EQ(LossOfReason(StatusCode::kUnavailable, "GROUP_LOST",
                         {{"in_step", "false"}}),
            Loss::kInnocent);
  EXPECT_EQ(LossOfReason(StatusCode::kUnavailable, "GROUP_LOST"),
            Loss::kSuspect);
}

TEST(LossOf, ATransportThatBrokeSaysNothing) {
  EXPECT_EQ(LossOf(absl::UnavailableError("Socket closed"), false),
            Loss::kSuspect);
  EXPECT_EQ(LossOf(absl::CancelledError(""), false), Loss::kSuspect);
  EXPECT_EQ(LossOf(absl::UnknownError("Stream removed"), false),
            Loss::kSuspect);
  EXPECT_EQ(LossOf(absl::InternalError("RST_STREAM"), false), Loss::kSuspect);
}

TEST(LossOf, ARefusalOfAGroupThatGoesIsNobodysDoing) {
  EXPECT_EQ(LossOfReason(StatusCode::kFailedPrecondition, "STALE_EPOCH"),
            Loss::kInnocent);
  EXPECT_EQ(LossOfReason(StatusCode::kUnavailable, "DRAINING"),
            Loss::kInnocent);
  EXPECT_EQ(LossOfReason(StatusCode::kUnavailable, "STARTING"),
            Loss::kInnocent);
}

TEST(LossOf, TheRequestsOwnErrorsAreNone) {
  EXPECT_EQ(LossOfReason(StatusCode::kResourceExhausted, "QUEUE_FULL"),
            Loss::kNone);
  EXPECT_EQ(LossOfReason(StatusCode::kInternal, "NON_FINITE_LOGITS"),
            Loss::kNone);
  EXPECT_EQ(LossOfReason(StatusCode::kDeadlineExceeded, "IN_DECODE"),
            Loss::kNone);
  EXPECT_EQ(LossOfReason(StatusCode::kCancelled, "CLIENT"), Loss::kNone);
}

TEST(LossOf, AFullQueueIsTheGroupsOnceAStreamWasResumed) {
  for (const char* word : {"QUEUE_FULL", "QUEUE_TIMEOUT"}) {
    const absl::Status full =
        ReasonedError(StatusCode::kResourceExhausted, word, "why");
    EXPECT_EQ(LossOf(full, /*resumed=*/false), Loss::kNone);
    EXPECT_EQ(LossOf(full, /*resumed=*/true), Loss::kInnocent);
  }
}

class ReplayTest : public testing::Test {
 protected:
  Replay replay_{{.max_losses = 2,
                  .wait_seconds = 30,
                  .degrade_seconds = 5,
                  .same_epoch_seconds = 1.5}};
  Trial trial_;
};

TEST_F(ReplayTest, IsBoundedByItsLosses) {
  EXPECT_EQ(replay_.OnLost(1, Loss::kSuspect, trial_), Verdict::kGoOn);
  trial_.Acquit();
  EXPECT_EQ(replay_.OnLost(2, Loss::kSuspect, trial_), Verdict::kGoOn);
  trial_.Acquit();
  EXPECT_EQ(replay_.OnLost(3, Loss::kSuspect, trial_), Verdict::kExhausted);
}

TEST_F(ReplayTest, ALossIsOneForAllChoices) {
  for (int i = 0; i < 16; ++i) {
    Trial one;
    EXPECT_EQ(replay_.OnLost(1, Loss::kSuspect, one), Verdict::kGoOn);
    EXPECT_TRUE(one.suspect);
  }
  EXPECT_EQ(replay_.losses(), 1);
}

TEST_F(ReplayTest, ALossCountsIfOneChoiceMayHaveCausedIt) {
  Trial other;
  replay_.OnLost(1, Loss::kInnocent, trial_);
  EXPECT_EQ(replay_.losses(), 0);
  replay_.OnLost(1, Loss::kSuspect, other);
  EXPECT_EQ(replay_.losses(), 1);
  EXPECT_FALSE(trial_.suspect);
}

TEST_F(ReplayTest, InnocentLossesCostNothingAndEndAnyway) {
  for (int64_t route = 1; route <= Replay::kMaxFreeLosses; ++route)
    EXPECT_EQ(replay_.OnLost(route, Loss::kInnocent, trial_), Verdict::kGoOn);
  EXPECT_EQ(replay_.losses(), 0);
  EXPECT_EQ(replay_.OnLost(Replay::kMaxFreeLosses + 1, Loss::kInnocent, trial_),
            Verdict::kExhausted);
}

TEST_F(ReplayTest, ASuspectThatWaitsForItsTrialIsInnocent) {
  replay_.OnLost(1, Loss::kSuspect, trial_);
  EXPECT_EQ(replay_.OnLost(2, Loss::kSuspect, trial_), Verdict::kGoOn);
  EXPECT_EQ(replay_.losses(), 1);
  EXPECT_TRUE(trial_.suspect);
}

TEST_F(ReplayTest, WhoKillsAGroupInCompanyAndThenAloneIsPoison) {
  EXPECT_EQ(replay_.OnLost(1, Loss::kSuspect, trial_), Verdict::kGoOn);
  trial_.on_trial = true;
  EXPECT_EQ(replay_.OnLost(2, Loss::kSuspect, trial_), Verdict::kPoison);
}

TEST_F(ReplayTest, ALossThatTheWorkerSaysItHadNoPartInEndsNoTrial) {
  replay_.OnLost(1, Loss::kSuspect, trial_);
  trial_.on_trial = true;
  EXPECT_EQ(replay_.OnLost(2, Loss::kInnocent, trial_), Verdict::kGoOn);
}

TEST_F(ReplayTest, AnEpochThatWasLostIsLeftAloneForAWhile) {
  replay_.Leave("a", 7, 100);
  EXPECT_FALSE(replay_.MayTake("a", 7, 101.4));
  EXPECT_TRUE(replay_.MayTake("a", 7, 101.5));
  EXPECT_TRUE(replay_.MayTake("a", 8, 100));
  EXPECT_TRUE(replay_.MayTake("b", 7, 100));
}

TEST_F(ReplayTest, OtherNumericsAreTakenLater) {
  replay_.Leave("a", 7, 100);
  EXPECT_FALSE(replay_.MayDegrade(104));
  EXPECT_TRUE(replay_.MayDegrade(105));
}

TEST_F(ReplayTest, TheWaitIsBoundedAndBeginsAnewWithAnotherLoss) {
  replay_.Leave("a", 7, 100);
  EXPECT_FALSE(replay_.WaitedTooLong(129));
  EXPECT_TRUE(replay_.WaitedTooLong(130));
  replay_.Arrived();
  EXPECT_FALSE(replay_.WaitedTooLong(130));
  replay_.Leave("a", 8, 130);
  EXPECT_FALSE(replay_.WaitedTooLong(159));
}

TEST_F(ReplayTest, LooksAgainWhenSomethingMayHaveChanged) {
  replay_.Leave("a", 7, 100);
  EXPECT_DOUBLE_EQ(replay_.NextLook(100), 0.25);
  EXPECT_NEAR(replay_.NextLook(101.4), 0.1, 1e-9);
  EXPECT_NEAR(replay_.NextLook(104.9), 0.1, 1e-9);
  EXPECT_NEAR(replay_.NextLook(129.9), 0.1, 1e-9);
}

}  // namespace
}  // namespace phalanx
