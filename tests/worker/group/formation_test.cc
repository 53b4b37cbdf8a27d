// Group formation over real servers: a leader and its followers, each with a
// unix socket, as threads of this process. Collectives are local ones.

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/check.h"
#include "common/grpc_status.h"
#include "common/mutex.h"
#include "common/reason.h"
#include "tests/support/status_matchers.h"
#include "worker/collective/local.h"
#include "worker/group/leader.h"
#include "worker/group/leader_link.h"
#include "worker/group/rank_service.h"

namespace phalanx {
namespace {

using testing::HasSubstr;

constexpr int kRanks = 4;

// Hands out the ranks of one local group per epoch.
class LocalGroups {
 public:
  std::unique_ptr<Collective> Take(uint64_t epoch, int rank) {
    MutexLock lock(mutex_);
    auto& group = groups_[epoch];
    if (group.empty()) group = CreateLocalGroup(kRanks);
    return std::move(group[rank]);
  }

 private:
  Mutex mutex_;
  std::map<uint64_t, std::vector<std::unique_ptr<Collective>>> groups_
      ABSL_GUARDED_BY(mutex_);
};

class LocalFactory final : public CollectiveFactory {
 public:
  LocalFactory(LocalGroups& groups, int rank) : groups_(groups), rank_(rank) {}

  std::string transport() const override { return "local"; }
  std::string NewId(uint64_t epoch) override { return std::to_string(epoch); }
  absl::StatusOr<std::unique_ptr<Collective>> Join(
      uint64_t epoch, const std::string& unique_id,
      const std::function<absl::Status()>& called_off) override {
    EXPECT_OK(called_off());
    EXPECT_EQ(unique_id, std::to_string(epoch));
    return groups_.Take(epoch, rank_);
  }

 private:
  LocalGroups& groups_;
  const int rank_;
};

std::unique_ptr<grpc::Server> Serve(const std::string& address,
                                    grpc::Service& service) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  CHECK(server != nullptr);
  return server;
}

std::unique_ptr<v1::Rank::StubInterface> StubFor(const std::string& address) {
  return v1::Rank::NewStub(
      grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
}

// A follower's process: its server, its link, and the group it is in.
class FollowerProcess {
 public:
  FollowerProcess(const RankIdentity& identity, const std::string& leader,
                  LocalGroups& groups)
      : identity_(identity),
        factory_(groups, identity.rank),
        server_(Serve(identity.address, service_)),
        leader_(StubFor(leader)) {}
  ~FollowerProcess() {
    link_.reset();
    server_->Shutdown(std::chrono::system_clock::now());
  }

  absl::Status Join(uint64_t last_epoch) {
    if (link_ == nullptr) {
      auto link = LeaderLink::Connect(*leader_, identity_, inbox_);
      if (!link.ok()) return link.status();
      link_ = *std::move(link);
    }
    inbox_.Reset();
    return link_->Join(last_epoch);
  }
  // The epoch that was entered.
  uint64_t Enter() {
    std::optional<FormationOffer> offer = inbox_.Wait();
    if (!offer.has_value()) return 0;
    offer->done(absl::OkStatus());
    collective_ = *factory_.Join(offer->epoch, offer->unique_id,
                                 [this] { return inbox_.CalledOff(); });
    inbox_.SetActive(collective_.get(), offer->epoch);
    return offer->epoch;
  }
  // How the group ended.
  absl::Status FollowToTheEnd() {
    std::string plan;
    const absl::Status status = collective_->Broadcast(plan);
    inbox_.SetActive(nullptr, 0);
    collective_.reset();
    return status;
  }
  void BreakLink() {
    inbox_.SetActive(nullptr, 0);
    link_.reset();
  }

 private:
  const RankIdentity identity_;
  LocalFactory factory_;
  FormationInbox inbox_;
  RankService service_{nullptr, &inbox_};
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::Rank::StubInterface> leader_;
  std::unique_ptr<LeaderLink> link_;
  std::unique_ptr<Collective> collective_;
};

class FormationTest : public testing::Test {
 protected:
  FormationTest() {
    folder_ =
        (std::filesystem::temp_directory_path() / "phalanx-XXXXXX").string();
    CHECK(mkdtemp(folder_.data()) != nullptr);
    membership_ = std::make_unique<Membership>(Identity(0));
    service_ = std::make_unique<RankService>(membership_.get(), nullptr);
    server_ = Serve(Identity(0).address, *service_);
    leader_ = std::make_unique<GroupLeader>(
        Identity(0), *membership_, factory_,
        [](const std::string& address) { return StubFor(address); }, 0);
  }
  ~FormationTest() override {
    server_->Shutdown(std::chrono::system_clock::now());
    std::filesystem::remove_all(folder_);
  }

  RankIdentity Identity(int rank) const {
    return {.rank = rank,
            .tp_size = kRanks,
            .version = "1",
            .address = "unix:" + folder_ + "/" + std::to_string(rank),
            .model_digest = "digest",
            .numerics_id = "numerics",
            .slice_plan = "8/resident",
            .pid = 1,
            .kv_blocks = 10 - rank,
            .state_slots = 4};
  }
  std::unique_ptr<FollowerProcess> Start(const RankIdentity& identity) {
    return std::make_unique<FollowerProcess>(identity, Identity(0).address,
                                             groups_);
  }
  // All of them join and enter one group.
  ServingGroup Form(std::vector<std::unique_ptr<FollowerProcess>>& followers,
                    uint64_t last_epoch) {
    std::vector<std::thread> threads;
    for (auto& follower : followers)
      threads.emplace_back([&follower, last_epoch] {
        EXPECT_OK(follower->Join(last_epoch));
        EXPECT_EQ(follower->Enter(), last_epoch + 1);
      });
    absl::StatusOr<ServingGroup> group = leader_->Form();
    for (std::thread& thread : threads) thread.join();
    EXPECT_OK(group);
    return *std::move(group);
  }

  std::string folder_;
  LocalGroups groups_;
  LocalFactory factory_{groups_, 0};
  std::unique_ptr<Membership> membership_;
  std::unique_ptr<RankService> service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<GroupLeader> leader_;
};

TEST_F(FormationTest, ABrokenLinkEndsTheGroupAndANewFollowerFormsTheNext) {
  std::vector<std::unique_ptr<FollowerProcess>> followers;
  for (int rank = 1; rank < kRanks; ++rank)
    followers.push_back(Start(Identity(rank)));
  {
    ServingGroup first = Form(followers, 0);
    EXPECT_EQ(first.epoch, 1u);
    EXPECT_EQ(first.kv_blocks, 7);  // The smallest offer.
    membership_->SetActive(first.collective.get());

    followers[1]->BreakLink();
    EXPECT_EQ(ReasonOf(followers[0]->FollowToTheEnd()).metadata.at("rank"),
              "2");
    EXPECT_FALSE(followers[2]->FollowToTheEnd().ok());
    EXPECT_FALSE(first.collective->status().ok());
    membership_->SetActive(nullptr);
  }
  followers[1].reset();
  followers[1] = Start(Identity(2));
  EXPECT_EQ(Form(followers, 1).epoch, 2u);
}

TEST_F(FormationTest, AFollowerWithAnotherModelIsRefused) {
  RankIdentity stranger = Identity(1);
  stranger.model_digest = "another";
  const auto follower = Start(stranger);
  const absl::Status status = follower->Join(0);
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       "model digest of rank 1 is another; rank 0 has digest"));
  EXPECT_EQ(ReasonOf(status).word, "VERSION_MISMATCH");
}

TEST_F(FormationTest, AHeartbeatOfNoRankIsRefused) {
  const auto follower = Start(Identity(kRanks));
  EXPECT_THAT(follower->Join(0), StatusIs(absl::StatusCode::kInvalidArgument,
                                          HasSubstr("rank is 4")));
}

TEST_F(FormationTest, NobodyAtTheLeadersAddressIsUnavailable) {
  server_->Shutdown(std::chrono::system_clock::now());
  const auto follower = Start(Identity(1));
  EXPECT_TRUE(absl::IsUnavailable(follower->Join(0)));
}

TEST_F(FormationTest, TheEndOfTheLeaderEndsTheWaitOfItsFollowers) {
  const auto follower = Start(Identity(1));
  ASSERT_OK(follower->Join(0));
  server_->Shutdown(std::chrono::system_clock::now());
  EXPECT_EQ(follower->Enter(), 0u);
}

TEST_F(FormationTest, CallsForTheOtherRoleAreWrongState) {
  const auto follower = Start(Identity(1));
  grpc::ClientContext form_context;
  v1::FormGroupResponse form_response;
  const absl::Status at_leader = FromGrpc(
      StubFor(Identity(0).address)
          ->FormGroup(&form_context, v1::FormGroupRequest(), &form_response));
  EXPECT_EQ(ReasonOf(at_leader).word, "WRONG_STATE");
  grpc::ClientContext join_context;
  v1::JoinResponse join_response;
  const absl::Status at_follower =
      FromGrpc(StubFor(Identity(1).address)
                   ->Join(&join_context, v1::JoinRequest(), &join_response));
  EXPECT_EQ(ReasonOf(at_follower).word, "WRONG_STATE");
}

}  // namespace
}  // namespace phalanx
