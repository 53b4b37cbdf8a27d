#ifndef PHALANX_WORKER_ENGINE_STATUS_BOARD_H_
#define PHALANX_WORKER_ENGINE_STATUS_BOARD_H_

#include <array>
#include <cstdint>
#include <string>

#include "common/clock.h"
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
inline constexpr int kWorkerStates = 6;

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
  // How long each state lasted when the rank was in it last; the present one,
  // so far. The board's own.
  std::array<double, kWorkerStates> state_seconds{};
};

// Where the engine thread writes it, and any thread reads it. Made with the
// worker, outlives engine and server.
class StatusBoard {
 public:
  // `clock` outlives the board.
  explicit StatusBoard(const Clock& clock = SteadyClock())
      : clock_(clock), entered_seconds_(clock.now_seconds()) {}

  WorkerSnapshot Read() const {
    MutexLock lock(mutex_);
    WorkerSnapshot snapshot = snapshot_;
    snapshot.state_seconds[static_cast<size_t>(snapshot.state)] =
        clock_.now_seconds() - entered_seconds_;
    return snapshot;
  }

  // Engine thread. Update gets the snapshot to change, under the lock.
  template <typename Update>
  void Write(Update update) {
    MutexLock lock(mutex_);
    const WorkerState before = snapshot_.state;
    update(snapshot_);
    if (snapshot_.state == before) return;
    const double now = clock_.now_seconds();
    snapshot_.state_seconds[static_cast<size_t>(before)] =
        now - entered_seconds_;
    entered_seconds_ = now;
  }

 private:
  static const Clock& SteadyClock() {
    static const MonotonicClock clock;
    return clock;
  }

  const Clock& clock_;
  mutable Mutex mutex_;
  WorkerSnapshot snapshot_ ABSL_GUARDED_BY(mutex_);
  double entered_seconds_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_ENGINE_STATUS_BOARD_H_
