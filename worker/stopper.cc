#include "worker/stopper.h"

#include <unistd.h>

#include <utility>

#include "common/log.h"

namespace phalanx {
namespace {

// A rank that hangs on its way out is ended after this many seconds.
constexpr unsigned kExitSeconds = 5;

}  // namespace

void Stopper::OnSignal(int count) {
  bool drains = false;
  {
    MutexLock lock(mutex_);
    leaving_.store(true);
    drains =
        count == 1 && actions_.drain != nullptr && drain_timeout_.count() > 0;
    if (drains) {
      LogInfo("worker", "draining",
              {{"limit_seconds",
                static_cast<double>(drain_timeout_.count()) / 1000}});
      actions_.drain();
    }
  }
  if (!drains) return Stop();
  timer_ = std::make_unique<Ticker>(drain_timeout_, [this] {
    LogWarning("worker", "drain took too long");
    Stop();
  });
}

void Stopper::Set(Actions actions) {
  MutexLock lock(mutex_);
  actions_ = std::move(actions);
  if (leaving_.load()) actions_.stop();
}

void Stopper::Forget() {
  MutexLock lock(mutex_);
  actions_ = {};
}

void Stopper::Stop() {
  if (!stopping_.exchange(true)) alarm(kExitSeconds);
  MutexLock lock(mutex_);
  if (actions_.stop != nullptr) actions_.stop();
}

}  // namespace phalanx
