// A follower's link to a rank 0 that is alive but does not speak, over a real
// server on a unix socket.

#include "worker/group/leader_link.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "common/check.h"
#include "common/reason.h"
#include "tests/support/status_matchers.h"
#include "worker/collective/local.h"
#include "worker/group/rank_stub.h"

namespace phalanx {
namespace {

// Answers so many heartbeats of each stream, then goes silent until the other
// side ends.
class Mute final : public v1::Rank::Service {
 public:
  explicit Mute(int answers) : answers_(answers) {}

  grpc::Status Heartbeat(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<v1::HeartbeatMessage, v1::HeartbeatMessage>*
          stream) override {
    v1::HeartbeatMessage message;
    for (int beats = 1; stream->Read(&message); ++beats)
      if (beats <= answers_) stream->Write(message);
    return grpc::Status::OK;
  }

 private:
  const int answers_;
};

class LeaderLinkTest : public testing::Test {
 protected:
  // Long enough for an answer on a busy machine, short enough for a test.
  static constexpr std::chrono::milliseconds kTick{50};

  LeaderLinkTest() {
    folder_ =
        (std::filesystem::temp_directory_path() / "phalanx-XXXXXX").string();
    CHECK(mkdtemp(folder_.data()) != nullptr);
  }
  ~LeaderLinkTest() override {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
    std::filesystem::remove_all(folder_);
  }

  absl::StatusOr<std::unique_ptr<LeaderLink>> ConnectTo(int answers) {
    const std::string address = "unix:" + folder_ + "/rank0";
    service_ = std::make_unique<Mute>(answers);
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials());
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
    CHECK(server_ != nullptr);
    leader_ = RankStub(address);
    RankIdentity identity;
    identity.rank = 1;
    return LeaderLink::Connect(*leader_, identity, inbox_, kTick);
  }

  std::string folder_;
  FormationInbox inbox_;
  const std::vector<std::unique_ptr<Collective>> group_ = CreateLocalGroup(2);
  std::unique_ptr<Mute> service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::Rank::StubInterface> leader_;
};

TEST_F(LeaderLinkTest, ALeaderThatGoesSilentEndsTheGroup) {
  const auto link = ConnectTo(/*answers=*/3);
  ASSERT_OK(link);
  inbox_.SetActive(group_[1].get(), 1);

  std::string plan;
  const absl::Status ended = group_[1]->Broadcast(plan);  // Until the abort.

  const Reason reason = ReasonOf(ended);
  EXPECT_EQ(reason.word, "GROUP_LOST");
  EXPECT_EQ(reason.metadata.at("rank"), "0");
  EXPECT_EQ(reason.metadata.at("cause"), "no heartbeat for 3 s");
  EXPECT_TRUE((*link)->broken());
  inbox_.SetActive(nullptr, 0);
}

TEST_F(LeaderLinkTest, ALeaderThatNeverAnswersIsNotWaitedForLong) {
  EXPECT_FALSE(ConnectTo(/*answers=*/0).ok());
}

}  // namespace
}  // namespace phalanx
