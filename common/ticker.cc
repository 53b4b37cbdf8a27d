#include "common/ticker.h"

#include <utility>

namespace phalanx {

Ticker::Ticker(std::chrono::milliseconds interval, std::function<void()> tick)
    : thread_([this, interval, tick = std::move(tick)] {
        while (true) {
          {
            MutexLock lock(mutex_);
            if (changed_.WaitFor(
                    mutex_, interval,
                    [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return ended_; }))
              return;
          }
          tick();
        }
      }) {}

Ticker::~Ticker() {
  {
    MutexLock lock(mutex_);
    ended_ = true;
    changed_.SignalAll();
  }
  thread_.join();
}

}  // namespace phalanx
