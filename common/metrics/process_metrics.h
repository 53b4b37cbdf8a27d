#ifndef PHALANX_COMMON_METRICS_PROCESS_METRICS_H_
#define PHALANX_COMMON_METRICS_PROCESS_METRICS_H_

#include <string>

#include "common/metrics/metric_registry.h"

namespace phalanx {

// What every daemon says of itself: process_* under the names that dashboards
// know, phalanx_log_messages_total, and phalanx_build_info with the labels
// component, version, revision and backend.
void AddProcessMetrics(const std::string& component, const std::string& backend,
                       MetricRegistry& registry);

}  // namespace phalanx

#endif  // PHALANX_COMMON_METRICS_PROCESS_METRICS_H_
