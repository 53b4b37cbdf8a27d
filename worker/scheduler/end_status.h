#ifndef PHALANX_WORKER_SCHEDULER_END_STATUS_H_
#define PHALANX_WORKER_SCHEDULER_END_STATUS_H_

// The errors that the scheduler gives of itself, with serving.md's reasons.
// Pure.

#include <cstdint>

#include "absl/status/status.h"
#include "worker/scheduler/sequence.h"

namespace phalanx {

// CANCELLED/CLIENT.
absl::Status ClientCancelled();

// DEADLINE_EXCEEDED: once there are tokens, emitted ones included,
// IN_DECODE{tokens_done}, wherever it is; else IN_QUEUE before its admission
// and IN_PREFILL after.
absl::Status TimeoutPassed(const Sequence& sequence);

// RESOURCE_EXHAUSTED: QUEUE_TIMEOUT{limit_seconds},
// SLOW_READER{limit_seconds}, QUEUE_FULL{limit},
// DEADLINE_UNMEETABLE{estimate_seconds}.
absl::Status WaitedTooLong(double limit_seconds);
absl::Status ReadTooSlowly(double limit_seconds);
absl::Status QueueIsFull(int64_t active, int64_t limit);
absl::Status TimeoutTooShort(double timeout_seconds, double estimate_seconds);

}  // namespace phalanx

#endif  // PHALANX_WORKER_SCHEDULER_END_STATUS_H_
