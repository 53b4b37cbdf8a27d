#ifndef PHALANX_WORKER_PLAN_MEMORY_NEEDS_H_
#define PHALANX_WORKER_PLAN_MEMORY_NEEDS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "worker/checkpoint/model_config.h"
#include "worker/plan/memory_plan.h"

namespace phalanx {

// What a request comes to before its budget is known: what is fixed, and the
// bounds and sizes of the two pools. least <= usual <= most.
struct MemoryNeeds {
  int64_t experts_bytes = 0;  // Resident ones.
  int64_t non_expert_bytes = 0;
  int64_t state_slots = 0;
  int64_t state_slot_bytes = 0;
  int64_t workspace_bytes = 0;
  int64_t communicator_bytes = 0;
  int64_t bank_bytes = 0;

  int64_t slot_bytes = 0;          // Of one expert slot; 0 where resident.
  int64_t whole_expert_bytes = 0;  // Of all its parts; 0 where resident.
  int64_t least_slots = 0;
  int64_t usual_slots = 0;
  int64_t most_slots = 0;
  int64_t block_bytes = 0;  // Of one KV block; 0 without attention layers.
  int64_t least_blocks = 0;
  int64_t usual_blocks = 0;
  int64_t most_blocks = 0;

  int64_t least_kv_bytes() const { return least_blocks * block_bytes; }
  // The least of all but the KV cache.
  int64_t held_bytes() const {
    return experts_bytes + least_slots * slot_bytes + non_expert_bytes +
           state_slots * state_slot_bytes + workspace_bytes +
           communicator_bytes;
  }
  int64_t least_bytes() const { return held_bytes() + least_kv_bytes(); }
};

// Does not look at the request's memory. INVALID_ARGUMENT names any other
// field, its value and its limits, or says why the model cannot run so.
absl::StatusOr<MemoryNeeds> NeedsOf(const ModelConfig& config,
                                    const PlanRequest& request);

// INVALID_ARGUMENT unless the request's memory is within its limits.
absl::Status CheckBudget(const PlanRequest& request);

// What one card may hold of all categories together.
int64_t BudgetBytes(const PlanRequest& request);

// RESOURCE_EXHAUSTED: what is needed, what there is, what is missing, and what
// would fit. Call where needs.least_bytes() is above BudgetBytes(request).
absl::Status DoesNotFit(const ModelConfig& config, const PlanRequest& request,
                        const MemoryNeeds& needs);

}  // namespace phalanx

#endif  // PHALANX_WORKER_PLAN_MEMORY_NEEDS_H_
