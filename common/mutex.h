#ifndef PHALANX_COMMON_MUTEX_H_
#define PHALANX_COMMON_MUTEX_H_

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"

namespace phalanx {

// std::mutex with Clang's thread-safety annotations.
//
// Not absl::Mutex: Debian's libabsl is built without ThreadSanitizer, which
// then cannot see its locks and reports races that are not there.
class ABSL_LOCKABLE Mutex {
 public:
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex)
      : mutex_(mutex) {
    mutex_.Lock();
  }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

class CondVar {
 public:
  // Waits until ready() holds; it runs with the mutex held.
  template <typename Ready>
  void Wait(Mutex& mutex, Ready ready) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock, ready);
    lock.release();
  }

  // The same, for at most `timeout`; returns what ready() said last.
  template <typename Ready>
  bool WaitFor(Mutex& mutex, std::chrono::nanoseconds timeout, Ready ready)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    const bool held = condition_.wait_for(lock, timeout, ready);
    lock.release();
    return held;
  }

  void SignalAll() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace phalanx

#endif  // PHALANX_COMMON_MUTEX_H_
