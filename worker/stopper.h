#ifndef PHALANX_WORKER_STOPPER_H_
#define PHALANX_WORKER_STOPPER_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>

#include "common/mutex.h"
#include "common/ticker.h"

namespace phalanx {

// How a rank ends on signals. The first lets it finish what it has, the second,
// or a drain that takes too long, ends it at once. A rank that still loads has
// nothing to finish.
//
// Made by main before any other thread; OnSignal is the signal thread's, Set
// and Forget the engine thread's.
class Stopper {
 public:
  struct Actions {
    std::function<void()> drain;
    std::function<void()> stop;
  };

  explicit Stopper(std::chrono::milliseconds drain_timeout)
      : drain_timeout_(drain_timeout) {}

  // What `count`, the number of this signal, means.
  void OnSignal(int count);

  // The rank has loaded. `stop` is called at once if a signal came before.
  // What the actions refer to lives until Forget.
  void Set(Actions actions);
  void Forget();

  // True from the first signal on: this rank enters no other group.
  const std::atomic<bool>& leaving() const { return leaving_; }

 private:
  void Stop();

  const std::chrono::milliseconds drain_timeout_;
  std::atomic<bool> leaving_{false};
  std::atomic<bool> stopping_{false};
  Mutex mutex_;
  Actions actions_ ABSL_GUARDED_BY(mutex_);
  // Ends a drain that takes too long. Last: its thread uses the rest.
  std::unique_ptr<Ticker> timer_;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_STOPPER_H_
