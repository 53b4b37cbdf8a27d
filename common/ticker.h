#ifndef PHALANX_COMMON_TICKER_H_
#define PHALANX_COMMON_TICKER_H_

#include <chrono>
#include <functional>
#include <thread>

#include "common/mutex.h"

namespace phalanx {

// Calls a function at every interval, on a thread of its own, from one interval
// after it was made until it goes. Costs nothing between two calls.
class Ticker {
 public:
  Ticker(std::chrono::milliseconds interval, std::function<void()> tick);
  // Waits for a call that runs.
  ~Ticker();
  Ticker(const Ticker&) = delete;
  Ticker& operator=(const Ticker&) = delete;

 private:
  Mutex mutex_;
  CondVar changed_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace phalanx

#endif  // PHALANX_COMMON_TICKER_H_
