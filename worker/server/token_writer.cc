#include "worker/server/token_writer.h"

#include <utility>

#include "common/check.h"
#include "common/grpc_status.h"
#include "worker/server/convert.h"

namespace phalanx {

template <typename Change>
void TokenWriter::AddToNext(const Change& change) {
  Action action;
  {
    MutexLock lock(mutex_);
    if (!waiting_.has_value()) {
      waiting_.emplace();
      waiting_->set_epoch(epoch_);
    }
    change(*waiting_);
    action = Next();
  }
  Start(action);
}

void TokenWriter::Admitted(double queue_seconds, int64_t cached_tokens) {
  AddToNext([&](v1::WorkerGenerateEvent& event) {
    event.set_queue_seconds(queue_seconds);
    event.set_cached_tokens(cached_tokens);
  });
}

void TokenWriter::Preempted() {
  AddToNext([](v1::WorkerGenerateEvent& event) {
    event.set_preemptions(event.preemptions() + 1);
  });
}

void TokenWriter::OnTrial() {
  AddToNext([](v1::WorkerGenerateEvent& event) { event.set_on_trial(true); });
}

void TokenWriter::PushPrompt(std::vector<Token> tokens) {
  AddToNext([&](v1::WorkerGenerateEvent& event) {
    for (const Token& token : tokens)
      *event.add_prompt_tokens() = ToProto(token);
  });
}

void TokenWriter::Push(std::vector<Token> tokens) {
  AddToNext([&](v1::WorkerGenerateEvent& event) {
    for (const Token& token : tokens) *event.add_tokens() = ToProto(token);
  });
}

void TokenWriter::Finish(FinishReason reason, int32_t stop_id) {
  AddToNext([&](v1::WorkerGenerateEvent& event) {
    *event.mutable_finished() = ToProto(reason, stop_id);
  });
  End(absl::OkStatus());
}

void TokenWriter::Close(absl::Status error) { End(std::move(error)); }

void TokenWriter::End(absl::Status status) {
  Action action;
  {
    MutexLock lock(mutex_);
    CHECK(!end_.has_value());
    end_ = std::move(status);
    action = Next();
  }
  Start(action);
}

void TokenWriter::OnCancel() {
  cancelled_.store(true, std::memory_order_relaxed);
  WakeEngine();
}

void TokenWriter::OnWriteDone(bool ok) {
  Action action;
  bool wake;
  {
    MutexLock lock(mutex_);
    writing_ = false;
    const bool was_full = full_.load(std::memory_order_relaxed);
    const bool told = ok && in_flight_.on_trial();
    if (told) trial_known_.store(true, std::memory_order_relaxed);
    if (!ok) {
      waiting_.reset();
      cancelled_.store(true, std::memory_order_relaxed);
    }
    action = Next();
    wake = told || !ok || (was_full && !full_.load(std::memory_order_relaxed));
  }
  // Before Start, after which this object may be gone.
  if (wake) WakeEngine();
  Start(action);
}

TokenWriter::Action TokenWriter::Next() {
  if (!writing_ && waiting_.has_value() &&
      !cancelled_.load(std::memory_order_relaxed)) {
    in_flight_ = *std::move(waiting_);
    waiting_.reset();
    writing_ = true;
    Measure();
    return Action::kWrite;
  }
  Measure();
  if (writing_ || !end_.has_value()) return Action::kNone;
  finish_ = *end_;
  return Action::kFinish;
}

void TokenWriter::Measure() {
  int64_t waiting = 0;
  if (waiting_.has_value())
    waiting = waiting_->tokens_size() + waiting_->prompt_tokens_size();
  const bool full = full_.load(std::memory_order_relaxed);
  full_.store(waiting > kFullTokens || (full && waiting >= kRoomTokens),
              std::memory_order_relaxed);
}

// Outside the lock, and last in every caller: Finish may delete this object.
void TokenWriter::Start(Action action) {
  switch (action) {
    case Action::kNone:
      return;
    case Action::kWrite: {
      grpc::WriteOptions options;
      // Else a write is done as soon as flow control lets it pass.
      if (in_flight_.on_trial()) options.set_write_through();
      return StartWrite(&in_flight_, options);
    }
    case Action::kFinish:
      return grpc::ServerWriteReactor<v1::WorkerGenerateEvent>::Finish(
          ToGrpc(finish_));
  }
}

void TokenWriter::WakeEngine() {
  if (inbox_ != nullptr) inbox_->Wake();
}

}  // namespace phalanx
