#include "worker/plan/memory_plan.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/byte_size.h"
#include "common/status.h"
#include "kernels/sequences.h"

namespace phalanx {
namespace {

constexpr int64_t kMaxRunning = 4096;
// A sequence needs one block for its prompt and one to go on.
constexpr int64_t kLeastKvBlocks = 2;

absl::Status CheckRequest(const PlanRequest& request) {
  if (request.device_bytes < 1 || request.device_bytes > kMaxByteSize)
    return absl::InvalidArgumentError(
        absl::StrCat("device_memory is ", request.device_bytes,
                     " bytes; must be 1..", kMaxByteSize));
  if (!(request.memory_ratio > 0 && request.memory_ratio <= 1))
    return absl::InvalidArgumentError(absl::StrCat(
        "memory_ratio is ", request.memory_ratio, "; must be in (0, 1]"));
  if (request.max_running < 1 || request.max_running > kMaxRunning)
    return absl::InvalidArgumentError(absl::StrCat(
        "max_running is ", request.max_running, "; must be 1..", kMaxRunning));
  if (request.communicator_bytes < 0 ||
      request.communicator_bytes > kMaxByteSize)
    return absl::InvalidArgumentError(
        absl::StrCat("communicator_bytes is ", request.communicator_bytes,
                     "; must be 0..", kMaxByteSize));
  return absl::OkStatus();
}

int64_t Communicator(const PlanRequest& request) {
  return request.tp_size > 1 ? request.communicator_bytes : 0;
}

// What may be planned of a card.
int64_t Budget(const PlanRequest& request) {
  const int64_t free =
      std::max<int64_t>(0, request.device_bytes - Communicator(request));
  return static_cast<int64_t>(
      std::floor(request.memory_ratio * static_cast<double>(free)));
}

// As many as the bytes of twice num_experts whole experts hold, so that prefill
// can double-buffer a layer; never more than there are experts.
int64_t ExpertSlots(const ModelConfig& config, int64_t whole_bytes,
                    int64_t slot_bytes) {
  return std::min(2 * config.num_experts * whole_bytes / slot_bytes,
                  config.num_layers() * config.num_experts);
}

// Weights and expert slots of the rank that holds most.
absl::Status AddWeights(const ModelConfig& config, const PlanRequest& request,
                        MemoryPlan* plan) {
  const WeightTypes& types = request.weights;
  ASSIGN_OR_RETURN(const LocalShape whole, MakeLocalShape(config, 0, 1));
  const bool offload = request.moe_mode == MoeMode::kOffload;
  const bool full_bank = offload && request.bank == OffloadBank::kFull;
  const int64_t whole_shared =
      NonExpertShareOf(config, whole, types).shared_experts;
  int64_t expert_bytes = 0;
  for (int rank = 0; rank < request.tp_size; ++rank) {
    ASSIGN_OR_RETURN(const LocalShape local,
                     MakeLocalShape(config, rank, request.tp_size));
    NonExpertShare share = NonExpertShareOf(config, local, types);
    if (full_bank) share.shared_experts = whole_shared;
    plan->non_expert_bytes = std::max(plan->non_expert_bytes, share.total());
    expert_bytes =
        std::max(expert_bytes,
                 ExpertBytes(config, full_bank ? whole : local, types.format));
  }
  const int64_t experts = config.num_layers() * config.num_experts;
  if (!offload) {
    plan->experts_bytes = experts * expert_bytes;
    return absl::OkStatus();
  }
  const int64_t whole_bytes = ExpertBytes(config, whole, types.format);
  plan->expert_slots = ExpertSlots(config, whole_bytes, expert_bytes);
  plan->expert_slots_bytes = plan->expert_slots * expert_bytes;
  plan->bank_bytes = experts * whole_bytes;
  return absl::OkStatus();
}

absl::Status DoesNotFit(const PlanRequest& request, int64_t held,
                        int64_t least_kv, int64_t budget) {
  const int64_t communicator = Communicator(request);
  return absl::ResourceExhaustedError(absl::StrCat(
      "tp_size ", request.tp_size, ", moe_mode ", MoeModeName(request.moe_mode),
      ": a card needs ", FormatByteSize(held), " and ",
      FormatByteSize(least_kv), " for ", kLeastKvBlocks,
      " KV blocks; its budget is ", FormatByteSize(budget), ", memory_ratio ",
      request.memory_ratio, " of device_memory ",
      FormatByteSize(request.device_bytes),
      communicator > 0 ? absl::StrCat(" less ", FormatByteSize(communicator),
                                      " for the communicator")
                       : "",
      ": ", FormatByteSize(held + least_kv - budget), " too little"));
}

}  // namespace

absl::string_view MoeModeName(MoeMode mode) {
  return mode == MoeMode::kResident ? "resident" : "offload";
}

int64_t StateSlots(int64_t max_running) {
  const int64_t cached = std::max<int64_t>(4, 2 * max_running);
  return 4 * max_running + cached + 1;
}

absl::StatusOr<MemoryPlan> PlanMemory(const ModelConfig& config,
                                      const PlanRequest& request) {
  RETURN_IF_ERROR(CheckRequest(request));
  if (request.moe_mode == MoeMode::kOffload && !config.has_experts())
    return absl::InvalidArgumentError(absl::StrCat(
        "moe_mode is offload; must be resident: model_type \"",
        config.model_type, "\" is a dense model, without experts to offload"));
  ASSIGN_OR_RETURN(const LocalShape local,
                   MakeLocalShape(config, 0, request.tp_size));
  MemoryPlan plan;
  plan.tp_size = request.tp_size;
  plan.moe_mode = request.moe_mode;
  RETURN_IF_ERROR(AddWeights(config, request, &plan));
  plan.state_slots = StateSlots(request.max_running);
  plan.state_bytes =
      plan.state_slots * StateBytes(config, local, request.activations);

  const int64_t budget = Budget(request);
  const int64_t held = plan.experts_bytes + plan.expert_slots_bytes +
                       plan.non_expert_bytes + plan.state_bytes;
  const int64_t token_bytes = KvTokenBytes(config, local, request.activations);
  const int64_t block_bytes = kKvBlockTokens * token_bytes;
  const int64_t least_kv = kLeastKvBlocks * block_bytes;
  if (held + least_kv > budget)
    return DoesNotFit(request, held, least_kv, budget);
  // A model without attention layers keeps no keys: any context fits.
  const int64_t blocks = block_bytes > 0 ? (budget - held) / block_bytes : 0;
  plan.kv_tokens = blocks * kKvBlockTokens;
  plan.kv_cache_bytes = blocks * block_bytes;
  plan.longest_context =
      block_bytes > 0 ? std::min(config.max_position_embeddings, plan.kv_tokens)
                      : config.max_position_embeddings;
  return plan;
}

}  // namespace phalanx
