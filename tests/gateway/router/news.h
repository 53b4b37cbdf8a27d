#ifndef PHALANX_TESTS_GATEWAY_ROUTER_NEWS_H_
#define PHALANX_TESTS_GATEWAY_ROUTER_NEWS_H_

// What a test hears from threads of the code under test, and waits for.

#include <vector>

#include "common/mutex.h"

namespace phalanx {

// What on_change said, in order.
class News {
 public:
  void Tell(bool ready) {
    MutexLock lock(mutex_);
    said_.push_back(ready);
    changed_.SignalAll();
  }
  // All of it, once it is so much.
  std::vector<bool> AfterThis(size_t count) {
    MutexLock lock(mutex_);
    changed_.Wait(mutex_, [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return said_.size() >= count;
    });
    return said_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<bool> said_ ABSL_GUARDED_BY(mutex_);
};

// Something that happens once, on one thread, and is awaited on another.
class Event {
 public:
  void Set() {
    MutexLock lock(mutex_);
    set_ = true;
    changed_.SignalAll();
  }
  void Wait() {
    MutexLock lock(mutex_);
    changed_.Wait(mutex_,
                  [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return set_; });
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool set_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace phalanx

#endif  // PHALANX_TESTS_GATEWAY_ROUTER_NEWS_H_
