#include "worker/group/leader_link.h"

#include <chrono>

#include "absl/strings/str_cat.h"
#include "common/grpc_status.h"
#include "common/reason.h"

namespace phalanx {
namespace {

constexpr std::chrono::seconds kBeatInterval{1};
constexpr std::chrono::seconds kJoinDeadline{5};

}  // namespace

LeaderLink::LeaderLink(v1::Rank::StubInterface& leader,
                       const RankIdentity& identity, FormationInbox& inbox)
    : leader_(leader), identity_(identity), inbox_(inbox) {}

absl::StatusOr<std::unique_ptr<LeaderLink>> LeaderLink::Connect(
    v1::Rank::StubInterface& leader, const RankIdentity& identity,
    FormationInbox& inbox) {
  std::unique_ptr<LeaderLink> link(new LeaderLink(leader, identity, inbox));
  link->stream_ = leader.Heartbeat(&link->context_);
  v1::HeartbeatMessage hello;
  hello.set_rank(identity.rank);
  v1::HeartbeatMessage answer;
  if (!link->stream_->Write(hello) || !link->stream_->Read(&answer)) {
    const absl::Status status = FromGrpc(link->stream_->Finish());
    return status.ok() ? absl::UnavailableError("rank 0 closed the heartbeat")
                       : status;
  }
  link->reader_ = std::thread([raw = link.get()] { raw->Read(); });
  link->beater_ = std::thread([raw = link.get()] { raw->Beat(); });
  return link;
}

LeaderLink::~LeaderLink() {
  if (!reader_.joinable()) return;  // Never connected.
  context_.TryCancel();
  reader_.join();
  beater_.join();
  stream_->Finish();
}

bool LeaderLink::broken() const {
  MutexLock lock(mutex_);
  return broken_;
}

// Rank 0 sends nothing more; the point is to see the stream end.
void LeaderLink::Read() {
  v1::HeartbeatMessage message;
  while (stream_->Read(&message)) {
  }
  {
    MutexLock lock(mutex_);
    broken_ = true;
    changed_.SignalAll();
  }
  inbox_.Abort(/*epoch=*/0,
               ReasonedError(absl::StatusCode::kUnavailable, "GROUP_LOST",
                             "rank 0 is gone: its connection closed",
                             {{"rank", "0"}, {"cause", "connection closed"}}));
}

void LeaderLink::Beat() {
  v1::HeartbeatMessage beat;
  beat.set_rank(identity_.rank);
  while (true) {
    {
      MutexLock lock(mutex_);
      if (changed_.WaitFor(
              mutex_, kBeatInterval,
              [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return broken_; }))
        return;
    }
    if (!stream_->Write(beat)) return;  // The reader tells.
  }
}

absl::Status LeaderLink::Join(uint64_t last_epoch) {
  v1::JoinRequest request;
  request.set_epoch(last_epoch);
  request.set_rank(identity_.rank);
  request.set_tp_size(identity_.tp_size);
  request.set_version(identity_.version);
  request.set_address(identity_.address);
  request.set_model_digest(identity_.model_digest);
  request.set_numerics_id(identity_.numerics_id);
  request.set_slice_plan(identity_.slice_plan);
  request.set_pid(identity_.pid);
  request.set_kv_blocks(identity_.kv_blocks);
  request.set_state_slots(identity_.state_slots);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kJoinDeadline);
  v1::JoinResponse response;
  return FromGrpc(leader_.Join(&context, request, &response));
}

}  // namespace phalanx
