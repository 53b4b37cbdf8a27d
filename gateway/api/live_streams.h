#ifndef PHALANX_GATEWAY_API_LIVE_STREAMS_H_
#define PHALANX_GATEWAY_API_LIVE_STREAMS_H_

#include <cstdint>

#include "common/mutex.h"

namespace phalanx {

// How many streams live. A stream may outlast the server's call by the time
// that its worker's call takes to end, so whoever owns what streams share waits
// here before that goes. Any thread.
class LiveStreams {
 public:
  // Counts from its making to its end. The first member of a stream, so that it
  // goes last: after the call that the stream's context refers to.
  class Place {
   public:
    explicit Place(LiveStreams& streams) : streams_(streams) {
      streams_.Enter();
    }
    ~Place() { streams_.Leave(); }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

   private:
    LiveStreams& streams_;
  };

  int64_t count() const {
    MutexLock lock(mutex_);
    return count_;
  }

  void WaitForNone() {
    MutexLock lock(mutex_);
    changed_.Wait(mutex_, [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return count_ == 0;
    });
  }

 private:
  void Enter() {
    MutexLock lock(mutex_);
    ++count_;
  }
  void Leave() {
    MutexLock lock(mutex_);
    --count_;
    changed_.SignalAll();
  }

  mutable Mutex mutex_;
  CondVar changed_;
  int64_t count_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_API_LIVE_STREAMS_H_
