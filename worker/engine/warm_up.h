#ifndef PHALANX_WORKER_ENGINE_WARM_UP_H_
#define PHALANX_WORKER_ENGINE_WARM_UP_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "worker/collective/collective.h"
#include "worker/engine/model_runner.h"
#include "worker/scheduler/step_plan.h"

namespace phalanx {

// What a group runs before it is ready: the largest prefill step that a
// sequence can make, then one decode step on top of it, by a sequence that gets
// copies of the first one's state and last block, and saves its own, where the
// limits have room for two. Fits the limits; for caches that hold nothing yet.
std::vector<StepPlan> WarmUpPlans(const StepPlanLimits& limits, uint64_t epoch);

// After a warm-up plan ran on every rank: INTERNAL/RANK_DIVERGED names the
// ranks whose logits differ from rank 0's. A collective call, on every rank.
absl::Status CompareLogits(const ModelRunner& runner, Collective& comm);

}  // namespace phalanx

#endif  // PHALANX_WORKER_ENGINE_WARM_UP_H_
