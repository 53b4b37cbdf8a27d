#include "worker/rank_plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "common/units.h"
#include "kernels/sequences.h"
#include "worker/engine/model_runner.h"
#include "worker/engine/sampler.h"

namespace phalanx {
namespace {

// Where fewer sequences run, so that log-probabilities of a prompt do not come
// a few rows at a time. A row costs the host and the device the vocabulary.
constexpr int64_t kLeastLogitRows = 32;

absl::StatusOr<SchedulerLimits> LimitsOf(const WorkerConfig& flags,
                                         const ModelConfig& config) {
  if (flags.max_model_len > config.max_position_embeddings)
    return absl::InvalidArgumentError(
        absl::StrCat("--max-model-len is ", flags.max_model_len,
                     "; the model's max_position_embeddings is ",
                     config.max_position_embeddings));
  SchedulerLimits limits;
  limits.max_running = flags.max_running;
  limits.max_waiting = flags.max_waiting;
  limits.max_model_len = flags.max_model_len > 0
                             ? flags.max_model_len
                             : config.max_position_embeddings;
  limits.prefill_chunk = flags.prefill_chunk;
  limits.step_tokens = flags.prefill_chunk + flags.max_running;
  limits.logit_rows = std::min(limits.step_tokens,
                               std::max(limits.max_running, kLeastLogitRows));
  limits.vocab_size = config.vocab_size;
  return limits;
}

PlanRequest RequestOf(const WorkerConfig& flags, const RankResources& resources,
                      const SchedulerLimits& limits) {
  PlanRequest request;
  request.tp_size = flags.tp_size;
  request.bank =
      flags.offload_bank == "full" ? OffloadBank::kFull : OffloadBank::kSharded;
  request.weights = resources.weights;
  request.activations = resources.activations;
  request.max_running = flags.max_running;
  request.communicator_bytes = resources.communicator_bytes;
  request.budget_bytes = flags.memory_budget > 0
                             ? flags.memory_budget
                             : resources.default_budget_bytes;
  request.expert_slots = flags.expert_slots;
  request.max_model_len = limits.max_model_len;
  if (flags.kv_blocks > 0) {
    request.least_kv_tokens = flags.kv_blocks * kKvBlockTokens;
    request.most_kv_tokens = request.least_kv_tokens;
  } else {
    const int64_t context = RoundUp(limits.max_model_len, kKvBlockTokens);
    // A model's own context may be far above what anyone sends it; one that was
    // asked for must be served.
    request.least_kv_tokens = flags.max_model_len > 0 ? context : 0;
    request.most_kv_tokens = flags.max_running * context;
  }
  return request;
}

// One rank's choice of mode, and the plan in it.
class ModeChoice {
 public:
  ModeChoice(const ModelConfig& config, const LocalShape& local,
             const SchedulerLimits& limits, const PlanRequest& request)
      : config_(config), local_(local), limits_(limits), request_(request) {}

  // Of experts as a mode and the bank cut them.
  LocalShape ShapeIn(MoeMode mode) const {
    return mode == MoeMode::kOffload && request_.bank == OffloadBank::kFull
               ? WithWholeExperts(config_, local_)
               : local_;
  }

  absl::Status Ask(MoeMode mode, RankPlan* plan) {
    ASSIGN_OR_RETURN(plan->memory, PlanMemory(config_, RequestIn(mode)));
    ASSIGN_OR_RETURN(plan->needed_bytes,
                     LeastBudgetBytes(config_, RequestIn(mode)));
    plan->why = "asked for";
    return absl::OkStatus();
  }

  absl::Status Auto(RankPlan* plan) {
    const absl::Status resident = Ask(MoeMode::kResident, plan);
    plan->why = "auto: with resident experts the plan fits the budget";
    if (!absl::IsResourceExhausted(resident) || config_.num_experts == 0)
      return resident;
    const absl::Status offload = Ask(MoeMode::kOffload, plan);
    if (absl::IsResourceExhausted(offload))
      return absl::ResourceExhaustedError(
          absl::StrCat("--moe-mode auto: neither fits. ", resident.message(),
                       ". ", offload.message()));
    RETURN_IF_ERROR(offload);
    ASSIGN_OR_RETURN(plan->needed_bytes,
                     LeastBudgetBytes(config_, RequestIn(MoeMode::kResident)));
    plan->why = "auto: with resident experts the plan exceeds the budget";
    return absl::OkStatus();
  }

 private:
  PlanRequest RequestIn(MoeMode mode) const {
    PlanRequest request = request_;
    const StepPlanLimits steps = PlanLimits(limits_);
    const LocalShape shape = ShapeIn(mode);
    request.moe_mode = mode;
    request.workspace_bytes = ModelRunner::DeviceWorkspaceBytes(
                                  config_, shape, steps, request.activations) +
                              ModelRunner::HostWorkspaceBytes(shape, steps) +
                              Sampler::Bytes(limits_.vocab_size);
    return request;
  }

  const ModelConfig& config_;
  const LocalShape& local_;
  const SchedulerLimits& limits_;
  const PlanRequest& request_;
};

}  // namespace

absl::StatusOr<RankPlan> PlanRank(const WorkerConfig& flags,
                                  const ModelConfig& config,
                                  const RankResources& resources) {
  RankPlan plan;
  ASSIGN_OR_RETURN(plan.limits, LimitsOf(flags, config));
  ASSIGN_OR_RETURN(const LocalShape local,
                   MakeLocalShape(config, flags.rank, flags.tp_size));
  const PlanRequest request = RequestOf(flags, resources, plan.limits);
  ModeChoice choice(config, local, plan.limits, request);
  if (flags.moe_mode == "auto")
    RETURN_IF_ERROR(choice.Auto(&plan));
  else
    RETURN_IF_ERROR(choice.Ask(
        flags.moe_mode == "offload" ? MoeMode::kOffload : MoeMode::kResident,
        &plan));
  plan.local = choice.ShapeIn(plan.memory.moe_mode);
  plan.limits.kv_blocks = plan.memory.kv_tokens / kKvBlockTokens;
  plan.limits.state_slots = plan.memory.state_slots;
  RETURN_IF_ERROR(ValidateLimits(plan.limits));
  return plan;
}

std::string SlicePlan(const RankPlan& plan) {
  const bool offload = plan.memory.moe_mode == MoeMode::kOffload;
  return absl::StrCat(
      "slices ", kContractionSlices, ", moe_mode ",
      MoeModeName(plan.memory.moe_mode),
      offload ? absl::StrCat(" ", OffloadBankName(plan.memory.bank)) : "",
      ", max_running ", plan.limits.max_running, ", max_model_len ",
      plan.limits.max_model_len, ", step_tokens ", plan.limits.step_tokens,
      ", logit_rows ", plan.limits.logit_rows);
}

}  // namespace phalanx
