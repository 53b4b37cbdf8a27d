#include "worker/group/membership.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/reason.h"
#include "tests/support/status_matchers.h"
#include "worker/collective/local.h"

namespace phalanx {
namespace {

using testing::HasSubstr;

RankIdentity Identity(int rank) {
  return {.rank = rank,
          .tp_size = 2,
          .version = "1",
          .address = "unix:rank" + std::to_string(rank),
          .model_digest = "digest",
          .numerics_id = "numerics",
          .slice_plan = "8/resident",
          .pid = 100 + rank,
          .kv_blocks = 10,
          .state_slots = 4};
}

class MembershipTest : public testing::Test {
 protected:
  Membership membership_{Identity(0)};
  const std::vector<std::unique_ptr<Collective>> group_ = CreateLocalGroup(2);
};

TEST_F(MembershipTest, RefusesAJoinWithoutAnOpenHeartbeat) {
  const absl::Status status = membership_.Join(Identity(1), 0);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition,
                               HasSubstr("no open heartbeat")));
  EXPECT_EQ(ReasonOf(status).word, "WRONG_STATE");
}

TEST_F(MembershipTest, RefusesRanksThatTheGroupDoesNotHave) {
  EXPECT_EQ(membership_.HeartbeatOpened(0), 0);
  EXPECT_EQ(membership_.HeartbeatOpened(2), 0);
  EXPECT_EQ(membership_.HeartbeatOpened(-1), 0);
  EXPECT_FALSE(membership_.Join(Identity(2), 0).ok());
}

TEST_F(MembershipTest, NamesEveryThingThatDiffers) {
  membership_.HeartbeatOpened(1);
  std::vector<std::pair<RankIdentity, std::string>> cases(
      6, {Identity(1), std::string()});
  cases[0].first.tp_size = 4;
  cases[0].second = "tp_size of rank 1 is 4; rank 0 has 2";
  cases[1].first.version = "2";
  cases[1].second = "version of rank 1 is 2; rank 0 has 1";
  cases[2].first.model_digest = "x";
  cases[2].second = "model digest of rank 1 is x; rank 0 has digest";
  cases[3].first.numerics_id = "x";
  cases[3].second = "numerics id of rank 1 is x; rank 0 has numerics";
  cases[4].first.slice_plan = "x";
  cases[4].second =
      "slice plan of rank 1 is x; rank 0 has 8/resident; give every rank the "
      "same --moe-mode (auto follows --memory-budget), --offload-bank, "
      "--max-running, --max-model-len and --prefill-chunk";
  cases[5].first.state_slots = 3;
  cases[5].second = "kv_blocks/state_slots of rank 1 is 10/3; rank 0 has 10/4";
  for (const auto& [identity, message] : cases) {
    const absl::Status status = membership_.Join(identity, 0);
    EXPECT_THAT(status,
                StatusIs(absl::StatusCode::kFailedPrecondition, message));
    EXPECT_EQ(ReasonOf(status).word, "VERSION_MISMATCH");
  }
}

TEST_F(MembershipTest, IsWholeOnceEveryOtherRankHasJoined) {
  membership_.HeartbeatOpened(1);
  EXPECT_OK(membership_.Join(Identity(1), 0));
  const auto others = membership_.WaitWhole();
  ASSERT_OK(others);
  ASSERT_EQ(others->size(), 1u);
  EXPECT_EQ(others->front().address, "unix:rank1");
}

TEST_F(MembershipTest, UsesJoinsUpSoThatTheNextGroupWaitsForNewOnes) {
  membership_.HeartbeatOpened(1);
  EXPECT_OK(membership_.Join(Identity(1), 0));
  ASSERT_OK(membership_.WaitWhole());
  std::thread later([&] { EXPECT_OK(membership_.Join(Identity(1), 1)); });
  EXPECT_OK(membership_.WaitWhole());
  later.join();
}

TEST_F(MembershipTest, AClosedHeartbeatEndsTheActiveGroup) {
  const int64_t stream = membership_.HeartbeatOpened(1);
  EXPECT_OK(membership_.Join(Identity(1), 0));
  ASSERT_OK(membership_.WaitWhole());
  membership_.SetActive(group_[0].get());
  EXPECT_OK(group_[0]->status());
  membership_.HeartbeatClosed(1, stream);
  const absl::Status status = group_[0]->status();
  EXPECT_EQ(ReasonOf(status).word, "GROUP_LOST");
  EXPECT_EQ(ReasonOf(status).metadata.at("rank"), "1");
  EXPECT_EQ(membership_.Missing(), std::vector<int>({1}));
}

TEST_F(MembershipTest, ALossBetweenWaitWholeAndSetActiveEndsTheGroupAtOnce) {
  const int64_t stream = membership_.HeartbeatOpened(1);
  EXPECT_OK(membership_.Join(Identity(1), 0));
  ASSERT_OK(membership_.WaitWhole());
  membership_.HeartbeatClosed(1, stream);
  membership_.SetActive(group_[0].get());
  EXPECT_EQ(ReasonOf(group_[0]->status()).word, "GROUP_LOST");
}

TEST_F(MembershipTest, ALossOfAnEarlierGroupDoesNotEndTheNext) {
  const int64_t stream = membership_.HeartbeatOpened(1);
  membership_.HeartbeatClosed(1, stream);
  membership_.HeartbeatOpened(1);
  EXPECT_OK(membership_.Join(Identity(1), 0));
  ASSERT_OK(membership_.WaitWhole());
  membership_.SetActive(group_[0].get());
  EXPECT_OK(group_[0]->status());
}

TEST_F(MembershipTest, ANewerHeartbeatOfARankReplacesTheOlder) {
  const int64_t first = membership_.HeartbeatOpened(1);
  membership_.SetActive(group_[0].get());
  const int64_t second = membership_.HeartbeatOpened(1);
  EXPECT_NE(first, second);
  EXPECT_FALSE(group_[0]->status().ok());
  membership_.HeartbeatClosed(1, first);  // Late news of the older.
  EXPECT_TRUE(membership_.Missing().empty());
}

TEST_F(MembershipTest, ASilentRankIsLostThoughItsStreamIsOpen) {
  const int64_t stream = membership_.HeartbeatOpened(1);
  membership_.SetActive(group_[0].get());
  for (int i = 0; i < kSilentTicks; ++i) membership_.Tick();
  EXPECT_OK(group_[0]->status());

  membership_.Tick();

  const Reason reason = ReasonOf(group_[0]->status());
  EXPECT_EQ(reason.word, "GROUP_LOST");
  EXPECT_EQ(reason.metadata.at("rank"), "1");
  EXPECT_EQ(reason.metadata.at("cause"), "no heartbeat for 3 s");
  EXPECT_EQ(membership_.Missing(), std::vector<int>({1}));
  EXPECT_FALSE(membership_.HeartbeatCame(1, stream));  // It must come anew.
}

TEST_F(MembershipTest, ABeatOfASecondKeepsARankForEver) {
  const int64_t stream = membership_.HeartbeatOpened(1);
  membership_.SetActive(group_[0].get());
  for (int i = 0; i < 100; ++i) {
    for (int tick = 0; tick < kTicksPerBeat; ++tick) membership_.Tick();
    EXPECT_TRUE(membership_.HeartbeatCame(1, stream));
  }
  EXPECT_OK(group_[0]->status());
}

TEST_F(MembershipTest, AnOlderStreamsBeatsDoNotCount) {
  const int64_t first = membership_.HeartbeatOpened(1);
  membership_.HeartbeatOpened(1);
  EXPECT_FALSE(membership_.HeartbeatCame(1, first));
}

TEST_F(MembershipTest, ALossWhileAGroupFormsCallsItOff) {
  const int64_t stream = membership_.HeartbeatOpened(1);
  EXPECT_OK(membership_.Join(Identity(1), 0));
  ASSERT_OK(membership_.WaitWhole());
  EXPECT_OK(membership_.CalledOff());

  membership_.HeartbeatClosed(1, stream);

  EXPECT_EQ(ReasonOf(membership_.CalledOff()).metadata.at("rank"), "1");
}

TEST_F(MembershipTest, StopCallsAFormingOff) {
  membership_.Stop();
  EXPECT_FALSE(membership_.CalledOff().ok());
}

TEST_F(MembershipTest, AbortActiveEndsTheGroupWithWhatIsSaidOfIt) {
  const auto reason = [](const Collective& group) {
    return absl::UnavailableError("of " + std::to_string(group.size()));
  };
  membership_.AbortActive(reason);  // There is none.

  membership_.SetActive(group_[0].get());
  membership_.AbortActive(reason);

  EXPECT_EQ(ReasonOf(group_[0]->status()).metadata.at("cause"), "of 2");
}

TEST_F(MembershipTest, AJoinDiesWithItsHeartbeat) {
  const int64_t stream = membership_.HeartbeatOpened(1);
  EXPECT_OK(membership_.Join(Identity(1), 0));
  membership_.HeartbeatClosed(1, stream);
  membership_.HeartbeatOpened(1);
  std::thread later([&] { membership_.Stop(); });
  EXPECT_TRUE(absl::IsCancelled(membership_.WaitWhole().status()));
  later.join();
}

TEST_F(MembershipTest, StopEndsWaitWhole) {
  std::thread waiting([&] {
    EXPECT_TRUE(absl::IsCancelled(membership_.WaitWhole().status()));
  });
  membership_.Stop();
  waiting.join();
}

TEST_F(MembershipTest, EpochsRiseAboveAllThatWereLivedIn) {
  membership_.HeartbeatOpened(1);
  EXPECT_OK(membership_.Join(Identity(1), 41));
  EXPECT_EQ(membership_.NextEpoch(0), 42u);
  EXPECT_EQ(membership_.NextEpoch(0), 43u);
  EXPECT_EQ(membership_.NextEpoch(100), 101u);
  EXPECT_OK(membership_.Join(Identity(1), 7));
  EXPECT_EQ(membership_.NextEpoch(100), 102u);
}

}  // namespace
}  // namespace phalanx
