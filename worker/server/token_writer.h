#ifndef PHALANX_WORKER_SERVER_TOKEN_WRITER_H_
#define PHALANX_WORKER_SERVER_TOKEN_WRITER_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "common/mutex.h"
#include "worker.pb.h"
#include "worker/scheduler/inbox.h"
#include "worker/scheduler/token_sink.h"

namespace phalanx {

// Of tokens that wait behind a write in flight: above the first the sequence
// should pause, below the second it should go on.
inline constexpr int64_t kFullTokens = 256;
inline constexpr int64_t kRoomTokens = 64;

// Carries tokens from the engine thread to one gateway, in order.
//
// The engine, its only user, calls Admitted and what else TokenSink has any
// number of times, then Finish or Close exactly once, then forgets the pointer;
// a service that refuses a request calls Close alone. The engine never waits
// here: what comes while a write is in flight gathers in one message, and
// full() asks the engine for a pause once that holds more than kFullTokens. So
// a stream holds at most that, a step's tokens, and as much again in flight. A
// gateway that goes away only sets cancelled(); the engine looks at it between
// steps and Closes.
//
// An engine with nothing to run sleeps on its inbox: it is woken when one of
// cancelled(), full() and trial_known() changes to its good.
//
// gRPC allows one write in flight and no Finish beside a write. Next() is the
// one place that keeps both rules. The object deletes itself in OnDone, which
// gRPC runs only after its Finish, so never while the engine still holds it.
class TokenWriter final
    : public grpc::ServerWriteReactor<v1::WorkerGenerateEvent>,
      public TokenSink {
 public:
  // `inbox`, the engine's, outlives this; null: nobody is to be woken.
  TokenWriter(uint64_t epoch, Inbox* inbox) : epoch_(epoch), inbox_(inbox) {}

  // TokenSink
  void Admitted(double queue_seconds, int64_t cached_tokens) override;
  void Preempted() override;
  void OnTrial() override;
  void PushPrompt(std::vector<Token> tokens) override;
  void Push(std::vector<Token> tokens) override;
  void Finish(FinishReason reason, int32_t stop_id) override;
  void Close(absl::Status error) override;
  bool cancelled() const override {
    return cancelled_.load(std::memory_order_relaxed);
  }
  bool full() const override { return full_.load(std::memory_order_relaxed); }
  // Once the kernel has the message: it arrives though this process dies.
  bool trial_known() const override {
    return trial_known_.load(std::memory_order_relaxed);
  }

 private:
  enum class Action { kNone, kWrite, kFinish };

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override { delete this; }

  // Changes what the next write carries.
  template <typename Change>
  void AddToNext(const Change& change);
  void End(absl::Status status);
  Action Next() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Measure() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Start(Action action);
  void WakeEngine();

  const uint64_t epoch_;
  Inbox* const inbox_;
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> full_{false};
  std::atomic<bool> trial_known_{false};
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
