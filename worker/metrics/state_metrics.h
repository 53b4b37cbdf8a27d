#ifndef PHALANX_WORKER_METRICS_STATE_METRICS_H_
#define PHALANX_WORKER_METRICS_STATE_METRICS_H_

#include "common/metrics/metric_registry.h"
#include "worker/engine/status_board.h"
#include "worker/metrics/expert_tally.h"
#include "worker/scheduler/limits.h"

namespace phalanx {

// What the status board and the expert cache know, read when scraped: KV cache,
// GDN slots, experts, the phases of a start. Who is scheduled where is known to
// rank 0 alone, so used, reusable and the states of slots are its series only.
// All lent.
void AddStateMetrics(int rank, const SchedulerLimits& limits,
                     const StatusBoard& board, const ExpertTally& experts,
                     MetricRegistry& registry);

}  // namespace phalanx

#endif  // PHALANX_WORKER_METRICS_STATE_METRICS_H_
