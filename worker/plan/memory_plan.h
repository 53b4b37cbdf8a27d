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
absl::string_view OffloadBankName(OffloadBank bank);  // "full", "sharded".

// What a communicator (NCCL and the context of a second card) takes of a card
// before anything is planned, where there is more than one rank.
inline constexpr int64_t kCommunicatorBytes = int64_t{512} << 20;

// What is to fit on one card. Its memory is given in one of two ways: as a
// budget for everything, or as what is free and the ratio of it to plan.
struct PlanRequest {
  int tp_size = 1;
  MoeMode moe_mode = MoeMode::kResident;
  OffloadBank bank = OffloadBank::kSharded;  // Of no effect where resident.
  WeightTypes weights = {};
  DType activations = DType::kBf16;  // Of keys, values and windows.
  int64_t device_bytes = 0;          // Free before anything is allocated.
  double memory_ratio = 0.9;         // The part of it that may be planned.
  int64_t max_running = 4;           // Sequences computed at once.
  // 0 where tp_size is 1. Comes off device_bytes before the ratio.
  int64_t communicator_bytes = kCommunicatorBytes;

  // Of all categories together, the communicator too. 0: by device_bytes.
  int64_t budget_bytes = 0;
  // Activations and logits of the largest step. 0: within what the ratio
  // leaves out.
  int64_t workspace_bytes = 0;
  // In offload. 0: the bytes of twice num_experts whole experts of bf16, so that
  // prefill can double-buffer a layer; fewer where those do not fit.
  int64_t expert_slots = 0;
  int64_t max_model_len = 0;  // Tokens of one sequence; 0: the model's.
  // The KV cache, rounded up to blocks. 0: at least two blocks, no bound.
  int64_t least_kv_tokens = 0;
  int64_t most_kv_tokens = 0;
};

// What one card holds. The *_bytes up to communicator_bytes are its memory and
// add up to no more than budget_bytes.
struct MemoryPlan {
  int tp_size = 1;
  MoeMode moe_mode = MoeMode::kResident;
  OffloadBank bank = OffloadBank::kSharded;
  int64_t experts_bytes = 0;  // Routed experts; 0 in offload.
  int64_t kv_cache_bytes = 0;
  int64_t non_expert_bytes = 0;
  int64_t state_bytes = 0;         // All state slots.
  int64_t expert_slots_bytes = 0;  // 0 where resident.
  int64_t workspace_bytes = 0;     // As requested.
  int64_t communicator_bytes = 0;
  int64_t budget_bytes = 0;
  int64_t kv_tokens = 0;  // A multiple of the KV block.
  int64_t state_slots = 0;
  int64_t longest_context = 0;  // Of one sequence: what is asked, or kv_tokens.
  int64_t expert_slots = 0;     // 0 where resident.
  int64_t bank_bytes = 0;       // Of the host, once for all its cards.
  // What a token of one stream fetches where every expert is as likely as any
  // other, once the slots are full; 0 where resident. Real routing favours some
  // experts, which then stay: it fetches less.
  int64_t fetched_bytes_per_token = 0;  // Into the slots of one card.
  int64_t read_bytes_per_token = 0;     // From the bank, for all cards at once.

  // What the card holds of all categories together.
  int64_t total() const {
    return experts_bytes + kv_cache_bytes + non_expert_bytes + state_bytes +
           expert_slots_bytes + workspace_bytes + communicator_bytes;
  }
};

// State slots for `max_running` sequences: one of each while it runs, the rest
// of snapshots in the prefix cache, which are 8 at least and 5 a sequence where
// there are more. Source: model_spec.md 5.2.
int64_t StateSlots(int64_t max_running);

// Plans the card that holds most, so that all ranks get equal pools
// (model_spec.md 5.2). First come what cannot be less: weights or a layer's
// expert slots, states, workspace, communicator, the least KV blocks. The rest
// goes, in this order and each as far as it reaches, to blocks for one whole
// context, the usual expert slots, KV blocks up to their bound, and more slots,
// up to one an expert. So no pool shrinks when the budget grows.
// Pure; any thread. INVALID_ARGUMENT names the field, its value and its limits;
// RESOURCE_EXHAUSTED says what is needed, what there is, what is missing, and
// which flags would make it fit.
absl::StatusOr<MemoryPlan> PlanMemory(const ModelConfig& config,
                                      const PlanRequest& request);

// The smallest budget_bytes that PlanMemory would take. INVALID_ARGUMENT as
// there.
absl::StatusOr<int64_t> LeastBudgetBytes(const ModelConfig& config,
                                         const PlanRequest& request);

}  // namespace phalanx

#endif  // PHALANX_WORKER_PLAN_MEMORY_PLAN_H_
