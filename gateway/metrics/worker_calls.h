#ifndef PHALANX_GATEWAY_METRICS_WORKER_CALLS_H_
#define PHALANX_GATEWAY_METRICS_WORKER_CALLS_H_

#include <array>
#include <cstdint>

#include "absl/status/status.h"
#include "common/metrics/metric_registry.h"

namespace phalanx {

enum class WorkerMethod : uint8_t { kGenerate, kGetStatus };

// How long calls to workers took, by their end. Any thread.
class WorkerCalls {
 public:
  explicit WorkerCalls(MetricRegistry& registry);

  void Count(WorkerMethod method, absl::StatusCode code, double seconds);

 private:
  static constexpr int kCodes = 10;  // The last one: other.

  std::array<std::array<prometheus::Histogram*, kCodes>, 2> seconds_;
};

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_METRICS_WORKER_CALLS_H_
