#include "worker/server/token_writer.h"

#include <utility>

#include "common/check.h"
#include "common/grpc_status.h"
#include "worker/server/convert.h"

namespace phalanx {

v1::WorkerGenerateEvent& TokenWriter::Waiting() {
  if (!waiting_.has_value()) {
    waiting_.emplace();
    waiting_->set_epoch(epoch_);
  }
  return *waiting_;
}

void TokenWriter::Admitted(double queue_seconds, int64_t cached_tokens) {
  Action action;
  {
    MutexLock lock(mutex_);
    Waiting().set_queue_seconds(queue_seconds);
    Waiting().set_cached_tokens(cached_tokens);
    action = Next();
  }
  Start(action);
}

void TokenWriter::Push(std::vector<Token> tokens) {
  Action action;
  {
    MutexLock lock(mutex_);
    for (const Token& token : tokens) *Waiting().add_tokens() = ToProto(token);
    action = Next();
  }
  Start(action);
}

void TokenWriter::Finish(FinishReason reason, int32_t stop_id) {
  Action action;
  {
    MutexLock lock(mutex_);
    CHECK(!end_.has_value());
    *Waiting().mutable_finished() = ToProto(reason, stop_id);
    end_ = absl::OkStatus();
    action = Next();
  }
  Start(action);
}

void TokenWriter::Close(absl::Status error) {
  Action action;
  {
    MutexLock lock(mutex_);
    CHECK(!end_.has_value());
    end_ = std::move(error);
    action = Next();
  }
  Start(action);
}

void TokenWriter::OnWriteDone(bool ok) {
  Action action;
  {
    MutexLock lock(mutex_);
    writing_ = false;
    if (!ok) {
      waiting_.reset();
      cancelled_.store(true, std::memory_order_relaxed);
    }
    action = Next();
  }
  Start(action);
}

TokenWriter::Action TokenWriter::Next() {
  if (writing_) return Action::kNone;
  if (waiting_.has_value() && !cancelled_.load(std::memory_order_relaxed)) {
    in_flight_ = *std::move(waiting_);
    waiting_.reset();
    writing_ = true;
    return Action::kWrite;
  }
  if (!end_.has_value()) return Action::kNone;
  finish_ = *end_;
  return Action::kFinish;
}

// Outside the lock, and last in every caller: Finish may delete this object.
void TokenWriter::Start(Action action) {
  switch (action) {
    case Action::kNone:
      return;
    case Action::kWrite:
      return StartWrite(&in_flight_);
    case Action::kFinish:
      return grpc::ServerWriteReactor<v1::WorkerGenerateEvent>::Finish(
          ToGrpc(finish_));
  }
}

}  // namespace phalanx
