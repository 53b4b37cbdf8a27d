#ifndef PHALANX_WORKER_ENGINE_STATUS_BOARD_H_
#define PHALANX_WORKER_ENGINE_STATUS_BOARD_H_

#include <cstdint>
#include <string>

#include "common/mutex.h"
#include "worker/scheduler/scheduler.h"

namespace phalanx {

enum class WorkerState : uint8_t {
  kLoading,
  kForming,
  kWarming,
  kReady,
  kDraining,
  kFailed,
};

// What a rank shows of itself while it works.
struct WorkerSnapshot {
  WorkerState state = WorkerState::kLoading;
  std::string detail;            // Why it is not ready, in words.
  double load_progress = 0;      // Of the weights' bytes, 0 to 1.
  int64_t load_total_bytes = 0;  // That it is of; 0 until it is known.
  uint64_t epoch = 0;
  int64_t steps = 0;  // Completed in this epoch.
  uint64_t warmup_logits_hash = 0;
  SchedulerCounts counts;  // Rank 0 only; the pools' totals on every rank.
};

// Where the engine thread writes it, and any thread reads it. Made with the
// worker, outlives engine and server.
class StatusBoard {
 public:
  WorkerSnapshot Read() const {
    MutexLock lock(mutex_);
    return snapshot_;
  }

  // Engine thread. Update gets the snapshot to change, under the lock.
  template <typename Update>
  void Write(Update update) {
    MutexLock lock(mutex_);
    update(snapshot_);
  }

 private:
  mutable Mutex mutex_;
  WorkerSnapshot snapshot_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_ENGINE_STATUS_BOARD_H_
