#ifndef PHALANX_WORKER_SERVER_TOKEN_WRITER_H_
#define PHALANX_WORKER_SERVER_TOKEN_WRITER_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "common/mutex.h"
#include "worker.pb.h"
#include "worker/scheduler/token_sink.h"

namespace phalanx {

// Carries tokens from the engine thread to one gateway, in order.
//
// The engine, its only user, calls Admitted and Push any number of times, then
// Finish or Close exactly once, then forgets the pointer; a service that
// refuses a request calls Close alone. The engine never waits here: tokens that
// come while a write is in flight gather in one message, and there are at most
// max_tokens of them. A gateway that goes away only sets cancelled(); the
// engine looks at it between steps and Closes.
//
// gRPC allows one write in flight and no Finish beside a write. Next() is the
// one place that keeps both rules. The object deletes itself in OnDone, which
// gRPC runs only after its Finish, so never while the engine still holds it.
class TokenWriter final
    : public grpc::ServerWriteReactor<v1::WorkerGenerateEvent>,
      public TokenSink {
 public:
  explicit TokenWriter(uint64_t epoch) : epoch_(epoch) {}

  // TokenSink
  void Admitted(double queue_seconds, int64_t cached_tokens) override;
  void Push(std::vector<Token> tokens) override;
  void Finish(FinishReason reason, int32_t stop_id) override;
  void Close(absl::Status error) override;
  bool cancelled() const override {
    return cancelled_.load(std::memory_order_relaxed);
  }

 private:
  enum class Action { kNone, kWrite, kFinish };

  void OnWriteDone(bool ok) override;
  void OnCancel() override {
    cancelled_.store(true, std::memory_order_relaxed);
  }
  void OnDone() override { delete this; }

  v1::WorkerGenerateEvent& Waiting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Action Next() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Start(Action action);

  const uint64_t epoch_;
  std::atomic<bool> cancelled_{false};
  Mutex mutex_;
  // What the next write carries.
  std::optional<v1::WorkerGenerateEvent> waiting_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  // Touched only by whoever Next() told to act, so unguarded.
  v1::WorkerGenerateEvent in_flight_;
  absl::Status finish_;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_SERVER_TOKEN_WRITER_H_
