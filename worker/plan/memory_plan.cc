#include "worker/plan/memory_plan.h"

#include <algorithm>
#include <cmath>

#include "common/status.h"
#include "kernels/sequences.h"
#include "worker/plan/memory_needs.h"

namespace phalanx {
namespace {

// How many of each pool there are.
struct Pools {
  int64_t slots = 0;
  int64_t blocks = 0;
};

// Gives `rest` bytes, beyond the least of everything, to the two pools. A pool
// takes its turn only when the one before it is full: what is left of a turn
// that ends early stays unused, or a larger budget could mean a smaller pool.
Pools ShareOut(const MemoryNeeds& needs, int64_t rest) {
  Pools pools = {.slots = needs.least_slots, .blocks = needs.least_blocks};
  const auto fill = [&rest](int64_t& count, int64_t until, int64_t bytes) {
    const int64_t wanted = until - count;
    const int64_t more = bytes > 0 ? std::min(wanted, rest / bytes) : wanted;
    count += more;
    rest -= more * bytes;
    return count == until;
  };
  [[maybe_unused]] const bool all_full =
      fill(pools.blocks, needs.usual_blocks, needs.block_bytes) &&
      fill(pools.slots, needs.usual_slots, needs.slot_bytes) &&
      fill(pools.blocks, needs.most_blocks, needs.block_bytes) &&
      fill(pools.slots, needs.most_slots, needs.slot_bytes);
  return pools;
}

// An expert that was last used i tokens ago is still in its slot if fewer
// others than there are slots were used since. Where all are equally likely,
// that is so for slots / experts of the lookups.
double MissesPerToken(const ModelConfig& config, int64_t slots) {
  const auto lookups =
      static_cast<double>(config.num_layers() * config.num_experts_per_tok);
  const auto all =
      static_cast<double>(config.num_layers() * config.num_experts);
  return slots == 0 ? 0 : lookups * (1 - static_cast<double>(slots) / all);
}

}  // namespace

absl::string_view MoeModeName(MoeMode mode) {
  return mode == MoeMode::kResident ? "resident" : "offload";
}

absl::string_view OffloadBankName(OffloadBank bank) {
  return bank == OffloadBank::kFull ? "full" : "sharded";
}

int64_t StateSlots(int64_t max_running) {
  const int64_t cached = std::max<int64_t>(4, 2 * max_running);
  return 4 * max_running + cached + 1;
}

absl::StatusOr<int64_t> LeastBudgetBytes(const ModelConfig& config,
                                         const PlanRequest& request) {
  ASSIGN_OR_RETURN(const MemoryNeeds needs, NeedsOf(config, request));
  return needs.least_bytes();
}

absl::StatusOr<MemoryPlan> PlanMemory(const ModelConfig& config,
                                      const PlanRequest& request) {
  RETURN_IF_ERROR(CheckBudget(request));
  ASSIGN_OR_RETURN(const MemoryNeeds needs, NeedsOf(config, request));
  const int64_t budget = BudgetBytes(request);
  const int64_t rest = budget - needs.least_bytes();
  if (rest < 0) return DoesNotFit(config, request, needs);
  const Pools pools = ShareOut(needs, rest);

  MemoryPlan plan;
  plan.tp_size = request.tp_size;
  plan.moe_mode = request.moe_mode;
  plan.bank = request.bank;
  plan.experts_bytes = needs.experts_bytes;
  plan.kv_cache_bytes = pools.blocks * needs.block_bytes;
  plan.non_expert_bytes = needs.non_expert_bytes;
  plan.state_bytes = needs.state_slots * needs.state_slot_bytes;
  plan.expert_slots_bytes = pools.slots * needs.slot_bytes;
  plan.workspace_bytes = needs.workspace_bytes;
  plan.communicator_bytes = needs.communicator_bytes;
  plan.budget_bytes = budget;
  plan.kv_tokens = pools.blocks * kKvBlockTokens;
  plan.state_slots = needs.state_slots;
  plan.longest_context =
      std::min(request.max_model_len > 0 ? request.max_model_len
                                         : config.max_position_embeddings,
               plan.kv_tokens);
  plan.expert_slots = pools.slots;
  plan.bank_bytes = needs.bank_bytes;
  const double misses = MissesPerToken(config, pools.slots);
  plan.fetched_bytes_per_token =
      std::llround(misses * static_cast<double>(needs.slot_bytes));
  plan.read_bytes_per_token =
      std::llround(misses * static_cast<double>(needs.whole_expert_bytes));
  return plan;
}

}  // namespace phalanx
