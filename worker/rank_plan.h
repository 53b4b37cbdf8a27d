#ifndef PHALANX_WORKER_RANK_PLAN_H_
#define PHALANX_WORKER_RANK_PLAN_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/tensor.h"
#include "worker/checkpoint/model_config.h"
#include "worker/config.h"
#include "worker/plan/memory_plan.h"
#include "worker/scheduler/limits.h"

namespace phalanx {

// What a plan must know of this rank beside its flags and the model.
struct RankResources {
  DType activations = DType::kBf16;  // The backend's.
  WeightTypes weights = {};          // As the backend holds them.
  // Of one rank, where there is more than one.
  int64_t communicator_bytes = 0;
  // For a rank that was given none. Measured before weights are read.
  int64_t default_budget_bytes = 0;
};

// How this rank runs: where experts live, how large its pools are, and the
// bounds of its scheduler that follow from both.
struct RankPlan {
  LocalShape local;  // With whole experts where the bank is full.
  MemoryPlan memory;
  SchedulerLimits limits;
  std::string why;           // This moe_mode, in words.
  int64_t needed_bytes = 0;  // The least budget that decided on it.
};

// Plans this rank's memory by PlanMemory. `auto` is resident where that fits
// the budget, else offload. The KV cache has room for at most max_running whole
// contexts and, if a context was asked for, for one of them at the least; or it
// is what kv_blocks says. Pure. INVALID_ARGUMENT names the flag, the value and
// the limit; RESOURCE_EXHAUSTED is PlanMemory's, of each mode that was tried.
absl::StatusOr<RankPlan> PlanRank(const WorkerConfig& flags,
                                  const ModelConfig& config,
                                  const RankResources& resources);

// What ranks must do alike, beside the weights: how contractions are cut, where
// experts live, and how large a step may be. Ranks whose words differ form no
// group.
std::string SlicePlan(const RankPlan& plan);

}  // namespace phalanx

#endif  // PHALANX_WORKER_RANK_PLAN_H_
