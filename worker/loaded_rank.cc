#include "worker/loaded_rank.h"

#include <utility>

#include "common/status.h"
#include "worker/experts/mapped_bank.h"
#include "worker/experts/resident_experts.h"
#include "worker/scheduler/limits.h"

namespace phalanx {

absl::StatusOr<std::unique_ptr<LoadedRank>> LoadedRank::Create(
    LoadRequest request, const ModelConfig& config, const RankPlan& plan,
    Backend& backend) {
  std::unique_ptr<LoadedRank> rank(new LoadedRank());
  LoadOptions options;
  options.routed_experts = plan.memory.moe_mode == MoeMode::kResident;
  ASSIGN_OR_RETURN(rank->weights_, LoadWeights(request.checkpoint, config,
                                               plan.local, backend, options));
  RETURN_IF_ERROR(rank->LoadExperts(std::move(request), config, plan, backend));
  ASSIGN_OR_RETURN(
      rank->runner_,
      ModelRunner::Create(backend, config, plan.local, rank->weights_,
                          *rank->experts_, PlanLimits(plan.limits)));
  return rank;
}

absl::Status LoadedRank::LoadExperts(LoadRequest request,
                                     const ModelConfig& config,
                                     const RankPlan& plan, Backend& backend) {
  if (plan.memory.moe_mode == MoeMode::kResident) {
    experts_ = std::make_unique<ResidentExperts>(weights_);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(bank_, MappedBank::Create(std::move(request.checkpoint),
                                             config, plan.local, backend));
  ASSIGN_OR_RETURN(std::unique_ptr<ExpertCache> cache,
                   ExpertCache::Create(backend, config, plan.local, *bank_,
                                       {.slots = plan.memory.expert_slots,
                                        .fetch_threads = request.threads},
                                       request.observer));
  cache_ = cache.get();
  experts_ = std::move(cache);
  return absl::OkStatus();
}

}  // namespace phalanx
