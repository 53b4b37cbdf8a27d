#ifndef PHALANX_WORKER_SCHEDULER_INBOX_H_
#define PHALANX_WORKER_SCHEDULER_INBOX_H_

#include <chrono>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/mutex.h"
#include "worker/scheduler/limits.h"
#include "worker/scheduler/request.h"
#include "worker/scheduler/token_sink.h"

namespace phalanx {

// A request on its way to the scheduler, with the sink that is lent with it.
struct Submission {
  Request request;
  TokenSink* sink = nullptr;
};

// What came in since the last Drain.
struct Arrivals {
  std::vector<Submission> submissions;  // In order of arrival.
  std::set<std::string> cancelled_ids;  // For Scheduler::Cancel, afterwards.
};

// The one locked door between RPC threads and the engine thread.
//
// Life: made closed with the worker, and outlives every epoch. The engine opens
// it when a group is ready and closes it when the group is lost or drains.
// Between Submit and Ended a key (id, choice) is active; there are never more
// than max_running + max_waiting active keys, so nothing here grows without
// bound and the scheduler behind never refuses what the door let in.
class Inbox {
 public:
  // Closed with UNAVAILABLE/STARTING.
  Inbox();

  // --- Any thread -----------------------------------------------------------

  // Checks the request and hands it over. On OK the engine owns the end of the
  // sink; else the sink is untouched. Errors, the first that applies:
  //   what the door was closed with (UNAVAILABLE STARTING, DRAINING,
  //   GROUP_LOST) FAILED_PRECONDITION  STALE_EPOCH{epoch,actual}
  //   INVALID_ARGUMENT     as ValidateRequest
  //   ALREADY_EXISTS       REQUEST_ACTIVE: this id and choice_index
  //   RESOURCE_EXHAUSTED   QUEUE_FULL{limit}
  absl::Status Submit(Request request, TokenSink* sink);

  // Asks for the end of every choice of this request before the next step.
  // False if none is active. Also while closed.
  bool Cancel(absl::string_view request_id);

  // Makes WaitForWork return (once, if nobody waits just now).
  void Wake();

  // Keys handed in and not yet ended: 0 means that a drain is complete.
  int64_t active() const;

  // Refuses every later Submit with `status`, which is not OK. What is inside
  // stays. Wakes the engine.
  void Close(absl::Status status);

  // --- Engine thread --------------------------------------------------------

  // Lets requests of this epoch in, checked against these limits, which passed
  // ValidateLimits. Nothing is active.
  void Open(uint64_t epoch, const SchedulerLimits& limits);

  // Returns as soon as there is something to Drain or Wake or Close was called,
  // true; or false after `timeout`.
  bool WaitForWork(std::chrono::nanoseconds timeout);

  // Takes what came. Never waits for more than the lock.
  Arrivals Drain();

  // These are over; their ids may be used again. Called from the scheduler's
  // on_ended, before the client can know of the end.
  void Ended(std::span<const RequestKey> keys);

  // Close, and ends with Close(status) every sink that no Drain has taken.
  void CloseAndEndAll(const absl::Status& status);

 private:
  bool IsActive(absl::string_view request_id) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  CondVar changed_;
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);  // OK: open.
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 0;
  SchedulerLimits limits_ ABSL_GUARDED_BY(mutex_);
  std::vector<Submission> submissions_ ABSL_GUARDED_BY(mutex_);
  std::set<RequestKey> active_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> cancel_asked_ ABSL_GUARDED_BY(mutex_);
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_SCHEDULER_INBOX_H_
