#ifndef PHALANX_GATEWAY_API_REQUEST_OBSERVER_H_
#define PHALANX_GATEWAY_API_REQUEST_OBSERVER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "gateway/api/outcome.h"

namespace phalanx {

// The end of one Generate or Chat, refused or served.
struct RequestEnd {
  // False: it asked for a model that is not served, or was unreadable.
  bool model_known = true;
  RequestOutcome outcome = RequestOutcome::kError;
  absl::Status status;
  double seconds = 0;  // Since it came.
  // Of what follows, only of a request that became a stream.
  bool streamed = false;
  int64_t prompt_tokens = 0;
  int64_t generated_tokens = 0;
  int64_t discarded_tokens = 0;
  int64_t buffered_bytes_most = 0;
};

// What came of an attempt to go on after a group was lost.
enum class ResumeResult : uint8_t {
  kResumed,    // The stream goes on.
  kExhausted,  // It was resumed as often as it may be.
  kRefused,    // No group took it.
};
inline constexpr int kResumeResults = 3;

// A place in a group's queue: the group (Route::index), its priority
// (inference.proto's) and when it was taken.
struct QueuedRequest {
  int priority = 0;
  double arrived_seconds = 0;
  int64_t group = 0;
};

// Sees what becomes of requests: for metrics, of which the service knows
// nothing. A stream waits, is admitted by rank 0, and ends once; it may end
// without having been admitted. Called under the stream's lock, on any of
// gRPC's threads, so calls must be short. Outlives every stream.
class RequestObserver {
 public:
  virtual ~RequestObserver() = default;

  virtual void OnWaiting(const QueuedRequest&) {}
  virtual void OnAdmitted(const QueuedRequest&, double /*queue_seconds*/,
                          int64_t /*prompt_tokens*/,
                          int64_t /*cached_tokens*/) {}
  // It was admitted again after its group was lost: so many tokens of prompt
  // and answer, of which so many need no computing.
  virtual void OnReadmitted(int64_t /*tokens*/, int64_t /*cached_tokens*/) {}
  virtual void OnResume(ResumeResult) {}
  // It left the group of `was` for that of `is`; else they are alike.
  virtual void OnMoved(const QueuedRequest& /*was*/,
                       const QueuedRequest& /*is*/, bool /*admitted*/) {}
  // Its caches, of so many tokens of prompt and answer, were given up.
  virtual void OnPreempted(int64_t /*tokens*/) {}
  // From admission to the first token, as this process saw both.
  virtual void OnPrefilled(double /*seconds*/) {}
  virtual void OnTokens(int64_t /*content*/, int64_t /*reasoning*/) {}
  // The first delta, or a later one, is handed to gRPC: since arrival, and
  // since the delta before.
  virtual void OnFirstDelta(double /*seconds*/) {}
  virtual void OnNextDelta(double /*seconds*/) {}
  // Reading from the worker rested this long, for a slow client.
  virtual void OnStall(double /*seconds*/) {}
  // Tokens that came after the end of a stream that ended so.
  virtual void OnDiscarded(RequestOutcome, int64_t /*tokens*/) {}
  virtual void OnWorkerCall(absl::StatusCode, double /*seconds*/) {}
  // `was`: its place, `admitted`: whether it had left the queue.
  virtual void OnStreamEnd(const QueuedRequest& /*was*/, bool /*admitted*/) {}
  virtual void OnEnd(const RequestEnd&) {}
};

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_API_REQUEST_OBSERVER_H_
