#ifndef PHALANX_WORKER_PLAN_MEMORY_PLAN_H_
#define PHALANX_WORKER_PLAN_MEMORY_PLAN_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/tensor.h"
#include "worker/checkpoint/model_config.h"
#include "worker/plan/shares.h"

namespace phalanx {

// Where routed experts live (design.md section 5).
enum class MoeMode : uint8_t {
  kResident,  // Each card holds its 1 / tp_size of every expert.
  kOffload,   // In a bank on the host; the card has slots for the hot ones.
};
absl::string_view MoeModeName(MoeMode mode);  // "resident", "offload".

// What one slot takes of an expert in offload.
enum class OffloadBank : uint8_t {
  kFull,     // All of it; the shared expert is whole on every card, too.
  kSharded,  // The card's 1 / tp_size.
};

// What a communicator (NCCL and the context of a second card) takes of a card
// before anything is planned, where there is more than one rank.
inline constexpr int64_t kCommunicatorBytes = int64_t{512} << 20;

// What is to fit on one card.
struct PlanRequest {
  int tp_size = 1;
  MoeMode moe_mode = MoeMode::kResident;
  OffloadBank bank = OffloadBank::kSharded;  // Of no effect where resident.
  WeightTypes weights = {};
  DType activations = DType::kBf16;  // Of keys, values and windows.
  int64_t device_bytes = 0;          // Free before anything is allocated.
  double memory_ratio = 0.9;         // The part of it that may be planned.
  int64_t max_running = 4;           // Sequences computed at once.
  int64_t communicator_bytes = kCommunicatorBytes;  // 0 where tp_size is 1.
};

// What one card holds. The *_bytes are its memory and add up to no more than
// the budget, memory_ratio of what is free.
struct MemoryPlan {
  int tp_size = 1;
  MoeMode moe_mode = MoeMode::kResident;
  int64_t experts_bytes = 0;  // Routed experts; 0 in offload.
  int64_t kv_cache_bytes = 0;
  int64_t non_expert_bytes = 0;
  int64_t state_bytes = 0;         // All state slots.
  int64_t expert_slots_bytes = 0;  // 0 where resident.
  int64_t kv_tokens = 0;           // A multiple of the KV block.
  int64_t state_slots = 0;
  int64_t longest_context = 0;  // Of one sequence: the model's, or kv_tokens.
  // 0 where resident. The bytes of twice num_experts whole experts, so that
  // prefill can double-buffer a layer: tp_size times as many slots of slices.
  int64_t expert_slots = 0;
  int64_t bank_bytes = 0;  // Of the host, once for all its cards.
};

// State slots for `max_running` sequences: for each one live, two that take
// turns as snapshots and one snapshot locked by it; twice as many sequences'
// snapshots (at least 4) in the prefix cache; one for padding.
int64_t StateSlots(int64_t max_running);

// Plans the card that holds most, so that all ranks get equal pools: weights,
// expert slots and states first, whole KV blocks with the rest (model_spec.md
// 5.2). Pure; any thread. INVALID_ARGUMENT names the field, its value and its
// limits, offload of a dense model among them; RESOURCE_EXHAUSTED says what is
// needed, what there is and what is missing for two KV blocks.
absl::StatusOr<MemoryPlan> PlanMemory(const ModelConfig& config,
                                      const PlanRequest& request);

}  // namespace phalanx

#endif  // PHALANX_WORKER_PLAN_MEMORY_PLAN_H_
