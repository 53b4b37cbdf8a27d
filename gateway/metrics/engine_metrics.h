#ifndef PHALANX_GATEWAY_METRICS_ENGINE_METRICS_H_
#define PHALANX_GATEWAY_METRICS_ENGINE_METRICS_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "common/metrics/metric_registry.h"
#include "common/mutex.h"
#include "gateway/router/worker_group.h"

namespace phalanx {

// What the engines of all groups count, as rank 0 of each tells it in its
// status: pre-emptions, the prefix cache, and who has waited longest. Engines
// count from 0 in every epoch; of an epoch that was under way before this
// gateway first looked, what came before is not counted. Any thread.
class EngineMetrics {
 public:
  EngineMetrics(const std::string& model, MetricRegistry& registry);

  // The group's rank 0 says this; of epoch 0: it cannot be reached, or is in no
  // group.
  void OnSeen(const std::string& group, const v1::WorkerStatus& leader);

 private:
  static constexpr int kCounts = 5;
  using Counts = std::array<int64_t, kCounts>;

  // What a group said last.
  struct Seen {
    uint64_t epoch = 0;  // 0: it was never reached.
    Counts counts = {};
    double oldest_seconds = 0;
  };

  static Counts CountsOf(const v1::WorkerStatus& leader);

  std::array<prometheus::Counter*, kCounts> counters_;
  Mutex mutex_;
  std::map<std::string, Seen> seen_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_METRICS_ENGINE_METRICS_H_
