#ifndef PHALANX_GATEWAY_API_GENERATION_H_
#define PHALANX_GATEWAY_API_GENERATION_H_

#include <grpcpp/grpcpp.h>

#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "gateway/admission/admission.h"
#include "gateway/api/active_requests.h"
#include "gateway/api/live_streams.h"
#include "gateway/api/outcome.h"
#include "gateway/api/prepare.h"
#include "gateway/api/request_observer.h"
#include "gateway/api/stream_tally.h"
#include "gateway/api/text_pipeline.h"
#include "gateway/router/router.h"
#include "gateway/router/worker_stream.h"
#include "inference.pb.h"

namespace phalanx {

// One client's stream from its acceptance to its finished line: reads tokens
// from the worker, makes events of them, writes those to the client in order.
//
// Two gRPC calls meet here, the client's (a server reactor) and the worker's (a
// client reactor), on any of gRPC's threads. The object owns itself until both
// have ended; the only others that ever share it are calls of Cancel under way.
// gRPC may run callbacks inside any call to it, so none is made under the lock.
// A slow client holds back reading from the worker once kMaxQueued
// events wait; nobody else is slowed. Place and request id are free again
// before the client can know of the end.
//
// The reactor speaks bytes, so that a request which does not parse gets a
// status of ours (InferenceService).
class Generation final : public grpc::ServerWriteReactor<grpc::ByteBuffer>,
                         public WorkerStream::Handler,
                         public ActiveRequests::Stream,
                         public std::enable_shared_from_this<Generation> {
 public:
  // What all streams of a gateway share; outlives them.
  struct Shared {
    ActiveRequests& active;
    Router& router;
    const Tokenizer* tokenizer;
    const Clock& clock;
    LiveStreams& live;
    RequestObserver& observer;
  };

  // When a request came, by shared.clock, and how long its client waits;
  // infinite where it set no deadline.
  struct Arrival {
    double seconds = 0;
    double timeout_seconds = std::numeric_limits<double>::infinity();
  };

  // Use Begin.
  Generation(const Shared& shared, PreparedRequest request, Ticket ticket,
             Router::Route route, const Arrival& arrival);

  // Enters the registry, sends Accepted and starts the worker's stream; on a
  // refusal the stream ends with it. The result is what the service returns.
  static grpc::ServerWriteReactor<grpc::ByteBuffer>* Begin(
      const Shared& shared, PreparedRequest request, Ticket ticket,
      Router::Route route, const Arrival& arrival);

  bool CancelByClient() override;
  bool EndForDrain() override;

 private:
  static constexpr size_t kMaxQueued = 256;

  // The client's call.
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;
  // The worker's call.
  bool OnWorkerEvent(const v1::WorkerGenerateEvent& event) override;
  void OnWorkerEnd(const absl::Status& status) override;

  enum class Action { kNone, kWrite, kFinish };

  // What waits for the client.
  struct Queued {
    grpc::ByteBuffer bytes;
    bool delta = false;
    int64_t tokens = 0;  // That came so far.
  };

  void Enqueue(v1::GenerateEvent event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EnqueueAccepted() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EnqueueEnd(const v1::WorkerGenerateEvent& event)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void End(absl::Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool EndEarly(absl::Status status);
  void LogEnd() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status LostError(const absl::Status& status) const;
  absl::Status GoneError() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ClearQueue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Action Next() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Act(Action action);
  void Leave();
  void Start();

  const LiveStreams::Place place_;
  const Shared shared_;
  const PreparedRequest request_;
  const Router::Route route_;
  const Arrival arrival_;
  WorkerStream worker_;
  TextPipeline text_;  // The worker's callbacks', one at a time.

  Mutex mutex_;
  Ticket ticket_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Generation> self_ ABSL_GUARDED_BY(mutex_);
  std::deque<Queued> queue_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
  RequestOutcome outcome_ ABSL_GUARDED_BY(mutex_) = RequestOutcome::kError;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finish_sent_ ABSL_GUARDED_BY(mutex_) = false;
  bool worker_started_ ABSL_GUARDED_BY(mutex_) = false;
  bool worker_paused_ ABSL_GUARDED_BY(mutex_) = false;
  bool registered_ ABSL_GUARDED_BY(mutex_) = false;
  int calls_open_ ABSL_GUARDED_BY(mutex_) = 1;
  uint64_t seq_ ABSL_GUARDED_BY(mutex_) = 0;
  StreamTally tally_ ABSL_GUARDED_BY(mutex_);
  // Touched only by whoever Next() told to act, so unguarded.
  grpc::ByteBuffer in_flight_;
  grpc::Status finish_;
};

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_API_GENERATION_H_
