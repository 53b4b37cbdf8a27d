#ifndef PHALANX_WORKER_SCHEDULER_WORK_RATE_H_
#define PHALANX_WORKER_SCHEDULER_WORK_RATE_H_

#include <cstdint>
#include <optional>

namespace phalanx {

// How fast tokens of prompts are dealt with, computed or found in the cache,
// measured over the last hundred or so steps that were as full as they may be;
// others say nothing about what the group can do.
class WorkRate {
 public:
  // A full step dealt with so many tokens in so many seconds (>= 0).
  void Add(int64_t tokens, double seconds);

  // Nothing before enough was measured.
  std::optional<double> tokens_per_second() const;

 private:
  double tokens_ = 0;  // Both fade alike.
  double seconds_ = 0;
  int64_t steps_ = 0;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_SCHEDULER_WORK_RATE_H_
