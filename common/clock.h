#ifndef PHALANX_COMMON_CLOCK_H_
#define PHALANX_COMMON_CLOCK_H_

#include <chrono>

namespace phalanx {

// The only source of time, so that a test can hold it. Monotonic.
class Clock {
 public:
  virtual ~Clock() = default;

  // Seconds since an arbitrary start; never goes back. Any thread.
  virtual double now_seconds() const = 0;
};

class MonotonicClock final : public Clock {
 public:
  double now_seconds() const override {
    return std::chrono::duration<double>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
};

// Moves only when told to. One thread at a time.
class ManualClock final : public Clock {
 public:
  double now_seconds() const override { return now_seconds_; }
  void Advance(double seconds) { now_seconds_ += seconds; }

 private:
  double now_seconds_ = 0;
};

}  // namespace phalanx

#endif  // PHALANX_COMMON_CLOCK_H_
