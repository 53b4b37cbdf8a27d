#include "worker/group/rank_service.h"

#include <utility>

#include "common/grpc_status.h"
#include "common/reason.h"

namespace phalanx {
namespace {

absl::Status WrongRole(const char* call, const char* who) {
  return ReasonedError(absl::StatusCode::kFailedPrecondition, "WRONG_STATE",
                       std::string(call) + " is answered by " + who + " only");
}

// One follower's heartbeat at rank 0. Answers each message, so that either side
// hears of the other, and tells the membership of beats and of the stream's
// end. One operation at a time, so there is no lock. Deletes itself in OnDone.
class HeartbeatReactor final
    : public grpc::ServerBidiReactor<v1::HeartbeatMessage,
                                     v1::HeartbeatMessage> {
 public:
  explicit HeartbeatReactor(Membership& membership) : membership_(membership) {
    StartRead(&message_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      Close();
      Finish(grpc::Status::OK);
      return;
    }
    if (stream_ == 0) {
      rank_ = message_.rank();
      stream_ = membership_.HeartbeatOpened(rank_);
      if (stream_ == 0) {
        Finish(ToGrpc(ReasonedError(absl::StatusCode::kInvalidArgument,
                                    "BAD_FIELD",
                                    "rank is " + std::to_string(rank_) +
                                        "; must be one of the followers")));
        return;
      }
    } else if (!membership_.HeartbeatCame(rank_, stream_)) {
      Finish(ToGrpc(ReasonedError(
          absl::StatusCode::kUnavailable, "GROUP_LOST",
          "rank " + std::to_string(rank_) + " was silent for too long")));
      return;
    }
    StartWrite(&answer_);
  }

  // If the write failed, so will the read.
  void OnWriteDone(bool) override { StartRead(&message_); }

  void OnDone() override {
    Close();
    delete this;
  }

 private:
  void Close() {
    if (stream_ > 0) membership_.HeartbeatClosed(rank_, stream_);
    stream_ = -1;
  }

  Membership& membership_;
  v1::HeartbeatMessage message_;
  v1::HeartbeatMessage answer_;
  int rank_ = -1;
  int64_t stream_ = 0;  // 0: nothing read yet; -1: told.
};

// Ends at once: the caller spoke to the wrong rank.
class RefusingReactor final
    : public grpc::ServerBidiReactor<v1::HeartbeatMessage,
                                     v1::HeartbeatMessage> {
 public:
  explicit RefusingReactor(const absl::Status& status) {
    Finish(ToGrpc(status));
  }
  void OnDone() override { delete this; }
};

}  // namespace

grpc::ServerUnaryReactor* RankService::Join(
    grpc::CallbackServerContext* context, const v1::JoinRequest* request,
    v1::JoinResponse* response) {
  auto* reactor = context->DefaultReactor();
  absl::Status status = WrongRole("Join", "rank 0");
  if (membership_ != nullptr) {
    status = membership_->Join({.rank = request->rank(),
                                .tp_size = request->tp_size(),
                                .version = request->version(),
                                .address = request->address(),
                                .model_digest = request->model_digest(),
                                .numerics_id = request->numerics_id(),
                                .slice_plan = request->slice_plan(),
                                .pid = request->pid(),
                                .kv_blocks = request->kv_blocks(),
                                .state_slots = request->state_slots()},
                               request->epoch());
  }
  response->set_epoch(request->epoch());
  reactor->Finish(ToGrpc(status));
  return reactor;
}

grpc::ServerUnaryReactor* RankService::FormGroup(
    grpc::CallbackServerContext* context, const v1::FormGroupRequest* request,
    v1::FormGroupResponse* response) {
  auto* reactor = context->DefaultReactor();
  if (inbox_ == nullptr) {
    reactor->Finish(ToGrpc(WrongRole("FormGroup", "followers")));
    return reactor;
  }
  response->set_epoch(request->epoch());
  inbox_->Offer({.epoch = request->epoch(),
                 .transport = request->transport(),
                 .unique_id = request->unique_id(),
                 .done = [reactor](const absl::Status& status) {
                   reactor->Finish(ToGrpc(status));
                 }});
  return reactor;
}

grpc::ServerBidiReactor<v1::HeartbeatMessage, v1::HeartbeatMessage>*
RankService::Heartbeat(grpc::CallbackServerContext*) {
  if (membership_ == nullptr)
    return new RefusingReactor(WrongRole("Heartbeat", "rank 0"));
  return new HeartbeatReactor(*membership_);
}

grpc::ServerUnaryReactor* RankService::Abort(
    grpc::CallbackServerContext* context, const v1::AbortRequest* request,
    v1::AbortResponse* response) {
  auto* reactor = context->DefaultReactor();
  absl::Status status;
  if (inbox_ != nullptr) {
    inbox_->Abort(request->epoch(),
                  ReasonedError(absl::StatusCode::kUnavailable, "GROUP_LOST",
                                request->reason(),
                                {{"rank", std::to_string(request->rank())},
                                 {"cause", request->reason()}}));
  } else {
    status = WrongRole("Abort", "followers");
  }
  response->set_epoch(request->epoch());
  reactor->Finish(ToGrpc(status));
  return reactor;
}

}  // namespace phalanx
