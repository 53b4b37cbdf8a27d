#include "worker/plan/memory_needs.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/byte_size.h"
#include "common/status.h"
#include "common/units.h"
#include "kernels/sequences.h"

namespace phalanx {
namespace {

constexpr int64_t kMaxRunning = 4096;
// More than any context; tokens times their bytes stay far below 2^63.
constexpr int64_t kMaxKvTokens = int64_t{1} << 38;
// A sequence needs one block for its prompt and one to go on.
constexpr int64_t kLeastKvBlocks = 2;

absl::Status CheckSizes(const ModelConfig& config, const PlanRequest& request) {
  const struct {
    absl::string_view field;
    int64_t value;
    int64_t least;
    int64_t most;
  } bounded[] = {
      {"max_running", request.max_running, 1, kMaxRunning},
      {"communicator_bytes", request.communicator_bytes, 0, kMaxByteSize},
      {"workspace_bytes", request.workspace_bytes, 0, kMaxByteSize},
      {"max_model_len", request.max_model_len, 0, kMaxKvTokens},
      {"least_kv_tokens", request.least_kv_tokens, 0, kMaxKvTokens},
      {"most_kv_tokens", request.most_kv_tokens, 0, kMaxKvTokens},
  };
  for (const auto& [field, value, least, most] : bounded)
    if (value < least || value > most)
      return absl::InvalidArgumentError(
          absl::StrCat(field, " is ", value, "; must be ", least, "..", most));
  if (request.moe_mode == MoeMode::kResident) return absl::OkStatus();
  if (config.num_experts < 1)
    return absl::InvalidArgumentError(absl::StrCat(
        "moe_mode is offload; must be resident: model_type \"",
        config.model_type, "\" is a dense model, without experts to offload"));
  const int64_t all = config.num_layers() * config.num_experts;
  if (request.expert_slots != 0 &&
      (request.expert_slots < config.num_experts || request.expert_slots > all))
    return absl::InvalidArgumentError(
        absl::StrCat("expert_slots is ", request.expert_slots,
                     "; must be at least ", config.num_experts,
                     ", the model's num_experts, so that a layer fits, "
                     "and at most ",
                     all, ", its experts in all layers"));
  return absl::OkStatus();
}

// Weights and expert slots of the rank that holds most.
absl::Status AddWeights(const ModelConfig& config, const PlanRequest& request,
                        MemoryNeeds* needs) {
  const WeightTypes& types = request.weights;
  const bool offload = request.moe_mode == MoeMode::kOffload;
  int64_t expert_bytes = 0;
  for (int rank = 0; rank < request.tp_size; ++rank) {
    ASSIGN_OR_RETURN(LocalShape local,
                     MakeLocalShape(config, rank, request.tp_size));
    if (offload && request.bank == OffloadBank::kFull)
      local = WithWholeExperts(config, local);
    needs->non_expert_bytes =
        std::max(needs->non_expert_bytes,
                 NonExpertShareOf(config, local, types).total());
    expert_bytes =
        std::max(expert_bytes, ExpertBytes(config, local, types.format));
  }
  const int64_t layer = config.num_experts;
  const int64_t all = config.num_layers() * layer;
  if (!offload) {
    needs->experts_bytes = all * expert_bytes;
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const LocalShape whole, MakeLocalShape(config, 0, 1));
  const int64_t whole_bytes = ExpertBytes(config, whole, types.format);
  needs->bank_bytes = all * whole_bytes;
  needs->slot_bytes = expert_bytes;
  needs->whole_expert_bytes = whole_bytes;
  needs->least_slots = layer;
  // The bytes of twice num_experts whole experts of bf16, whatever a slot
  // holds: so the smaller it is, the more there are. Never more than there are
  // experts.
  needs->usual_slots = std::clamp(
      2 * layer * ExpertBytes(config, whole, HeldFormat::kBf16) / expert_bytes,
      layer, all);
  needs->most_slots = all;
  if (request.expert_slots > 0)
    needs->least_slots = needs->usual_slots = needs->most_slots =
        request.expert_slots;
  return absl::OkStatus();
}

int64_t Blocks(int64_t tokens) { return CeilDivide(tokens, kKvBlockTokens); }

void AddKvCache(const ModelConfig& config, const PlanRequest& request,
                const LocalShape& local, MemoryNeeds* needs) {
  needs->block_bytes =
      kKvBlockTokens * KvTokenBytes(config, local, request.activations);
  const int64_t context = request.max_model_len > 0
                              ? request.max_model_len
                              : config.max_position_embeddings;
  needs->least_blocks = request.least_kv_tokens > 0
                            ? Blocks(request.least_kv_tokens)
                            : kLeastKvBlocks;
  // Without a bound: as many as any memory has room for, where they cost
  // nothing as many as one context takes.
  needs->most_blocks =
      request.most_kv_tokens > 0 ? Blocks(request.most_kv_tokens)
      : needs->block_bytes > 0   ? kMaxByteSize / needs->block_bytes
                                 : Blocks(context);
  needs->most_blocks = std::max(needs->most_blocks, needs->least_blocks);
  if (needs->block_bytes == 0) needs->least_blocks = needs->most_blocks;
  needs->usual_blocks =
      std::clamp(Blocks(context), needs->least_blocks, needs->most_blocks);
}

int64_t Communicator(const PlanRequest& request) {
  return request.tp_size > 1 ? request.communicator_bytes : 0;
}

std::string BudgetText(const PlanRequest& request) {
  std::string text = FormatByteSize(BudgetBytes(request));
  if (request.budget_bytes > 0) return text;
  const int64_t communicator = Communicator(request);
  if (communicator > 0)
    absl::StrAppend(&text, ", ", FormatByteSize(communicator),
                    " for the communicator and memory_ratio ",
                    request.memory_ratio, " of the rest of device_memory ",
                    FormatByteSize(request.device_bytes));
  else
    absl::StrAppend(&text, ", memory_ratio ", request.memory_ratio,
                    " of device_memory ", FormatByteSize(request.device_bytes));
  return text;
}

// Exact, so that it can be typed, and as a person reads it.
std::string Size(int64_t bytes) {
  return absl::StrCat(bytes, " (", FormatByteSize(bytes), ")");
}

// The memory that would do, by the flag that gives it.
std::string LeastMemory(const PlanRequest& request, int64_t least) {
  if (request.budget_bytes > 0)
    return absl::StrCat("--memory-budget at least ", Size(least));
  const int64_t communicator = Communicator(request);
  const auto free = static_cast<int64_t>(std::ceil(
      static_cast<double>(least - communicator) / request.memory_ratio));
  // One byte more: the way back rounds down, in double.
  return absl::StrCat("--device-memory at least ",
                      Size(free + communicator + 1));
}

// The most sequences whose states would fit; 0 if not even those of one do.
int64_t MostRunning(const PlanRequest& request, const MemoryNeeds& needs) {
  MemoryNeeds fewer = needs;
  for (int64_t running = request.max_running - 1; running > 0; --running) {
    fewer.state_slots = StateSlots(running);
    if (fewer.least_bytes() <= BudgetBytes(request)) return running;
  }
  return 0;
}

// What would fit in the same budget, as flags; any one of them is enough.
std::vector<std::string> Remedies(const ModelConfig& config,
                                  const PlanRequest& request,
                                  const MemoryNeeds& needs) {
  std::vector<std::string> remedies;
  const int64_t budget = BudgetBytes(request);
  if (request.moe_mode == MoeMode::kResident && config.num_experts > 0) {
    PlanRequest offload = request;
    offload.moe_mode = MoeMode::kOffload;
    const auto other = NeedsOf(config, offload);
    if (other.ok() && other->least_bytes() <= budget)
      remedies.push_back("--moe-mode offload");
  }
  if (needs.least_slots > config.num_experts) {
    const int64_t slots =
        needs.least_slots -
        CeilDivide(needs.least_bytes() - budget, needs.slot_bytes);
    if (slots >= config.num_experts)
      remedies.push_back(absl::StrCat("--expert-slots at most ", slots));
  }
  if (request.least_kv_tokens > 0 && needs.block_bytes > 0) {
    const int64_t blocks = (budget - needs.held_bytes()) / needs.block_bytes;
    const bool exact = request.least_kv_tokens == request.most_kv_tokens;
    if (blocks > 0)
      remedies.push_back(exact ? absl::StrCat("--kv-blocks at most ", blocks)
                               : absl::StrCat("--max-model-len at most ",
                                              blocks * kKvBlockTokens));
  }
  if (const int64_t running = MostRunning(request, needs); running > 0)
    remedies.push_back(absl::StrCat("--max-running at most ", running));
  remedies.push_back(LeastMemory(request, needs.least_bytes()));
  return remedies;
}

}  // namespace

absl::Status CheckBudget(const PlanRequest& request) {
  if (request.budget_bytes != 0) {
    if (request.budget_bytes < 1 || request.budget_bytes > kMaxByteSize)
      return absl::InvalidArgumentError(
          absl::StrCat("memory_budget is ", request.budget_bytes,
                       " bytes; must be 1..", kMaxByteSize));
    return absl::OkStatus();
  }
  if (request.device_bytes < 1 || request.device_bytes > kMaxByteSize)
    return absl::InvalidArgumentError(
        absl::StrCat("device_memory is ", request.device_bytes,
                     " bytes; must be 1..", kMaxByteSize));
  if (!(request.memory_ratio > 0 && request.memory_ratio <= 1))
    return absl::InvalidArgumentError(absl::StrCat(
        "memory_ratio is ", request.memory_ratio, "; must be in (0, 1]"));
  return absl::OkStatus();
}

int64_t BudgetBytes(const PlanRequest& request) {
  if (request.budget_bytes > 0) return request.budget_bytes;
  const int64_t communicator =
      std::min(Communicator(request), request.device_bytes);
  const auto free = static_cast<double>(request.device_bytes - communicator);
  return communicator +
         static_cast<int64_t>(std::floor(request.memory_ratio * free));
}

absl::StatusOr<MemoryNeeds> NeedsOf(const ModelConfig& config,
                                    const PlanRequest& request) {
  RETURN_IF_ERROR(CheckSizes(config, request));
  ASSIGN_OR_RETURN(const LocalShape local,
                   MakeLocalShape(config, 0, request.tp_size));
  MemoryNeeds needs;
  RETURN_IF_ERROR(AddWeights(config, request, &needs));
  needs.state_slots = StateSlots(request.max_running);
  needs.state_slot_bytes = StateBytes(config, local, request.activations);
  needs.workspace_bytes = request.workspace_bytes;
  needs.communicator_bytes = Communicator(request);
  AddKvCache(config, request, local, &needs);
  return needs;
}

absl::Status DoesNotFit(const ModelConfig& config, const PlanRequest& request,
                        const MemoryNeeds& needs) {
  const int64_t missing = needs.least_bytes() - BudgetBytes(request);
  return absl::ResourceExhaustedError(absl::StrCat(
      "tp_size ", request.tp_size, ", moe_mode ", MoeModeName(request.moe_mode),
      ": a rank needs ", FormatByteSize(needs.held_bytes()), " and ",
      FormatByteSize(needs.least_kv_bytes()), " for ", needs.least_blocks,
      " KV blocks; its budget is ", BudgetText(request), ": ",
      FormatByteSize(missing), " too little. What would fit: ",
      absl::StrJoin(Remedies(config, request, needs), "; or ")));
}

}  // namespace phalanx
