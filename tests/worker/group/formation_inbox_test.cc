#include "worker/group/formation_inbox.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "common/reason.h"
#include "tests/support/status_matchers.h"
#include "worker/collective/local.h"

namespace phalanx {
namespace {

const absl::Status kGone = absl::UnavailableError("rank 0 is gone");

class FormationInboxTest : public testing::Test {
 protected:
  // An offer whose answer lands in `answer`.
  FormationOffer Offer(uint64_t epoch, std::optional<absl::Status>& answer) {
    return {.epoch = epoch,
            .transport = "local",
            .unique_id = "id",
            .done = [&answer](absl::Status status) {
              EXPECT_FALSE(answer.has_value());
              answer = std::move(status);
            }};
  }

  FormationInbox inbox_;
  std::optional<absl::Status> first_;
  std::optional<absl::Status> second_;
  const std::vector<std::unique_ptr<Collective>> group_ = CreateLocalGroup(2);
};

TEST_F(FormationInboxTest, HandsTheOfferToWhoeverWaits) {
  std::thread rank_0([&] { inbox_.Offer(Offer(3, first_)); });
  const std::optional<FormationOffer> offer = inbox_.Wait();
  rank_0.join();
  ASSERT_TRUE(offer.has_value());
  EXPECT_EQ(offer->epoch, 3u);
  EXPECT_FALSE(first_.has_value());
  offer->done(absl::OkStatus());
  EXPECT_OK(*first_);
}

TEST_F(FormationInboxTest, ANewerOfferEndsTheOlder) {
  inbox_.Offer(Offer(3, first_));
  inbox_.Offer(Offer(4, second_));
  ASSERT_TRUE(first_.has_value());
  EXPECT_TRUE(absl::IsAborted(*first_));
  EXPECT_EQ(inbox_.Wait()->epoch, 4u);
}

TEST_F(FormationInboxTest, AnAbortEndsTheWaitAndAnswersTheOffer) {
  inbox_.Offer(Offer(3, first_));
  inbox_.Abort(3, kGone);
  EXPECT_EQ(*first_, kGone);
  EXPECT_FALSE(inbox_.Wait().has_value());
}

TEST_F(FormationInboxTest, AnOfferBetweenAbortAndResetIsAnsweredAtOnce) {
  inbox_.Abort(0, kGone);
  inbox_.Offer(Offer(3, first_));
  ASSERT_TRUE(first_.has_value());
  EXPECT_EQ(*first_, kGone);
  inbox_.Reset();
  inbox_.Offer(Offer(4, second_));
  EXPECT_EQ(inbox_.Wait()->epoch, 4u);
}

TEST_F(FormationInboxTest, AnAbortReachesTheActiveGroup) {
  inbox_.SetActive(group_[1].get(), 5);
  inbox_.Abort(5, kGone);
  EXPECT_EQ(ReasonOf(group_[1]->status()).metadata.at("cause"),
            "rank 0 is gone");
}

TEST_F(FormationInboxTest, ABrokenLinkEndsWhicheverGroupIsActive) {
  inbox_.SetActive(group_[1].get(), 5);
  inbox_.Abort(0, kGone);
  EXPECT_FALSE(group_[1]->status().ok());
}

TEST_F(FormationInboxTest, AnAbortOfAnOlderEpochDoesNothing) {
  inbox_.SetActive(group_[1].get(), 5);
  inbox_.Abort(4, kGone);
  EXPECT_OK(group_[1]->status());
}

TEST_F(FormationInboxTest, AnAbortBeforeSetActiveEndsTheGroupAtOnce) {
  inbox_.Offer(Offer(5, first_));
  ASSERT_TRUE(inbox_.Wait().has_value());
  inbox_.Abort(5, kGone);
  inbox_.SetActive(group_[1].get(), 5);
  EXPECT_FALSE(group_[1]->status().ok());
}

TEST_F(FormationInboxTest, AnAbortCallsAFormingOffUntilReset) {
  EXPECT_OK(inbox_.CalledOff());
  inbox_.Abort(3, kGone);
  EXPECT_EQ(inbox_.CalledOff(), kGone);
  inbox_.Reset();
  EXPECT_OK(inbox_.CalledOff());
}

TEST_F(FormationInboxTest, LeavingEndsTheWaitForGood) {
  inbox_.Offer(Offer(3, first_));
  inbox_.Leave(absl::CancelledError("leaves"));
  EXPECT_TRUE(absl::IsCancelled(*first_));
  inbox_.Reset();
  EXPECT_FALSE(inbox_.Wait().has_value());
  inbox_.Offer(Offer(4, second_));
  EXPECT_TRUE(absl::IsCancelled(*second_));
  EXPECT_TRUE(absl::IsCancelled(inbox_.CalledOff()));
}

TEST_F(FormationInboxTest, LeavingLetsTheActiveGroupGoOn) {
  inbox_.SetActive(group_[1].get(), 5);
  inbox_.Leave(absl::CancelledError("leaves"));
  EXPECT_OK(group_[1]->status());
}

TEST_F(FormationInboxTest, AbortActiveEndsOnlyAGroupThatRuns) {
  const auto reason = [](const Collective&) { return kGone; };
  inbox_.AbortActive(reason);
  EXPECT_OK(inbox_.CalledOff());
  inbox_.SetActive(group_[1].get(), 5);
  inbox_.AbortActive(reason);
  EXPECT_FALSE(group_[1]->status().ok());
}

}  // namespace
}  // namespace phalanx
