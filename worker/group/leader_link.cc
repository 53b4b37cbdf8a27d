#include "worker/group/leader_link.h"

#include <chrono>

#include "absl/strings/str_cat.h"
#include "common/grpc_status.h"
#include "common/reason.h"

namespace phalanx {
namespace {

constexpr std::chrono::seconds kJoinDeadline{5};

}  // namespace

LeaderLink::LeaderLink(v1::Rank::StubInterface& leader,
                       const RankIdentity& identity, FormationInbox& inbox)
    : leader_(leader), identity_(identity), inbox_(inbox) {}

absl::StatusOr<std::unique_ptr<LeaderLink>> LeaderLink::Connect(
    v1::Rank::StubInterface& leader, const RankIdentity& identity,
    FormationInbox& inbox, std::chrono::milliseconds tick) {
  std::unique_ptr<LeaderLink> link(new LeaderLink(leader, identity, inbox));
  link->stream_ = leader.Heartbeat(&link->context_);
  link->ticker_ =
      std::make_unique<Ticker>(tick, [raw = link.get()] { raw->Tick(); });
  const absl::Status greeted = link->Greet();
  if (!greeted.ok()) return greeted;
  link->reader_ = std::thread([raw = link.get()] { raw->Read(); });
  return link;
}

LeaderLink::~LeaderLink() {
  context_.TryCancel();
  if (reader_.joinable()) reader_.join();
  ticker_.reset();
  if (connected()) stream_->Finish();
}

bool LeaderLink::connected() const {
  MutexLock lock(mutex_);
  return connected_;
}

bool LeaderLink::broken() const {
  MutexLock lock(mutex_);
  return broken_;
}

absl::Status LeaderLink::Greet() {
  v1::HeartbeatMessage hello;
  hello.set_rank(identity_.rank);
  v1::HeartbeatMessage answer;
  if (!stream_->Write(hello) || !stream_->Read(&answer)) {
    const absl::Status status = FromGrpc(stream_->Finish());
    return status.ok() ? absl::UnavailableError("rank 0 closed the heartbeat")
                       : status;
  }
  MutexLock lock(mutex_);
  connected_ = true;
  silence_.Heard();
  return absl::OkStatus();
}

void LeaderLink::Read() {
  v1::HeartbeatMessage message;
  while (stream_->Read(&message)) {
    MutexLock lock(mutex_);
    silence_.Heard();
  }
  const char* cause = "connection closed";
  {
    MutexLock lock(mutex_);
    broken_ = true;
    if (silent_) cause = "no heartbeat for 3 s";
  }
  inbox_.Abort(/*epoch=*/0,
               ReasonedError(absl::StatusCode::kUnavailable, "GROUP_LOST",
                             absl::StrCat("rank 0 is gone: ", cause),
                             {{"rank", "0"}, {"cause", cause}}));
}

void LeaderLink::Tick() {
  bool beats = false;
  bool silent = false;
  {
    MutexLock lock(mutex_);
    if (broken_) return;
    silent = silent_ = silence_.Tick();
    beats = connected_ && ++ticks_ % kTicksPerBeat == 0;
  }
  if (silent) return context_.TryCancel();  // The reader, or Greet, tells.
  if (!beats) return;
  v1::HeartbeatMessage beat;
  beat.set_rank(identity_.rank);
  stream_->Write(beat);  // If it fails, so does the read.
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
