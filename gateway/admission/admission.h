#ifndef PHALANX_GATEWAY_ADMISSION_ADMISSION_H_
#define PHALANX_GATEWAY_ADMISSION_ADMISSION_H_

#include <atomic>
#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"

namespace phalanx {

class Ticket;

// How many requests a gateway holds at once, queued ones included. Made by
// main, outlives every ticket; any thread.
class Admission {
 public:
  explicit Admission(int64_t limit) : limit_(limit) {}

  // A place, or RESOURCE_EXHAUSTED/QUEUE_FULL{limit}; UNAVAILABLE/DRAINING once
  // Close was called.
  absl::StatusOr<Ticket> Enter();

  // This gateway is about to go: all may still come in, but nobody should be
  // sent here any more.
  void BeginDrain() { draining_.store(true); }
  bool draining() const { return draining_.load(); }

  // Lets nobody in any more.
  void Close() { closed_.store(true); }
  bool closed() const { return closed_.load(); }
  int64_t held() const { return held_.load(); }
  int64_t limit() const { return limit_; }

 private:
  friend class Ticket;

  const int64_t limit_;
  std::atomic<int64_t> held_{0};
  std::atomic<bool> draining_{false};
  std::atomic<bool> closed_{false};
};

// One place; given back when it dies. Move only.
class Ticket {
 public:
  Ticket() = default;
  explicit Ticket(Admission& admission) : admission_(&admission) {}
  Ticket(Ticket&& other) noexcept
      : admission_(std::exchange(other.admission_, nullptr)) {}
  Ticket& operator=(Ticket&& other) noexcept {
    std::swap(admission_, other.admission_);
    return *this;
  }
  ~Ticket() {
    if (admission_ != nullptr) admission_->held_.fetch_sub(1);
  }

 private:
  Admission* admission_ = nullptr;
};

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_ADMISSION_ADMISSION_H_
