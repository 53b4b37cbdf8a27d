#ifndef PHALANX_GATEWAY_METRICS_GROUP_METRICS_H_
#define PHALANX_GATEWAY_METRICS_GROUP_METRICS_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/metrics/metric_registry.h"
#include "gateway/metrics/engine_metrics.h"
#include "gateway/metrics/worker_calls.h"
#include "gateway/router/worker_group.h"

namespace phalanx {

// What this gateway sees of one group, as series; a look old at most.
class GroupMetrics final : public WorkerGroup::Observer {
 public:
  // `wall_seconds`: the time of day, in seconds since the epoch of Unix.
  // `calls` and `engines` are lent.
  GroupMetrics(const std::string& group, int ranks,
               std::function<double()> wall_seconds, WorkerCalls& calls,
               EngineMetrics& engines, MetricRegistry& registry);

  void OnSeen(const WorkerGroup::View& view) override;
  void OnStatusCall(absl::StatusCode code, double seconds) override {
    calls_.Count(WorkerMethod::kGetStatus, code, seconds);
  }

 private:
  void AddTransitions(const std::string& group, MetricRegistry& registry);
  void Move(const std::string& from, const std::string& to, bool gone);

  const std::string group_;
  const std::function<double()> wall_seconds_;
  WorkerCalls& calls_;
  EngineMetrics& engines_;
  std::map<std::string, prometheus::Gauge*> states_;
  // "from>to>reason".
  std::map<std::string, prometheus::Counter*> transitions_;
  prometheus::Gauge& epoch_;
  prometheus::Gauge& workers_;
  prometheus::Gauge& last_step_;
  std::vector<prometheus::Gauge*> heartbeats_;  // By rank.

  // The watching thread's: what was seen before.
  std::string seen_state_ = "forming";
  uint64_t seen_epoch_ = 0;
  int64_t seen_steps_ = 0;
};

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_METRICS_GROUP_METRICS_H_
