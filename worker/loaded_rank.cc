#include "worker/loaded_rank.h"

#include <utility>

#include "common/status.h"
#include "worker/experts/mapped_bank.h"
#include "worker/experts/packed_bank.h"
#include "worker/experts/resident_experts.h"
#include "worker/scheduler/limits.h"

namespace phalanx {

absl::StatusOr<std::unique_ptr<LoadedRank>> LoadedRank::Create(
    LoadRequest request, const ModelConfig& config, const RankPlan& plan,
    Backend& backend) {
  std::unique_ptr<LoadedRank> rank(new LoadedRank());
  const bool offload = plan.memory.moe_mode == MoeMode::kOffload;
  // A bank that is packed takes memory for a moment: before weights do.
  if (offload && !request.pack_cache.empty()) {
    ASSIGN_OR_RETURN(
        rank->bank_,
        PackedBank::Create(request.checkpoint, config, plan.local, backend,
                           {.dir = request.pack_cache,
                            .model_digest = request.model_digest,
                            .threads = request.threads,
                            .format = request.format,
                            .on_progress = request.on_pack_progress}));
  }
  ASSIGN_OR_RETURN(rank->weights_,
                   LoadWeights(request.checkpoint, config, plan.local, backend,
                               {.routed_experts = !offload,
                                .format = request.format,
                                .run = {.threads = request.threads,
                                        .on_progress = request.on_progress,
                                        .stop = request.stop}}));
  if (offload) {
    RETURN_IF_ERROR(
        rank->CacheExperts(std::move(request), config, plan, backend));
  } else {
    rank->experts_ = std::make_unique<ResidentExperts>(rank->weights_);
  }
  ASSIGN_OR_RETURN(
      rank->runner_,
      ModelRunner::Create(backend, config, plan.local, rank->weights_,
                          *rank->experts_, PlanLimits(plan.limits)));
  return rank;
}

absl::Status LoadedRank::CacheExperts(LoadRequest request,
                                      const ModelConfig& config,
                                      const RankPlan& plan, Backend& backend) {
  if (bank_ == nullptr) {
    ASSIGN_OR_RETURN(bank_,
                     MappedBank::Create(std::move(request.checkpoint), config,
                                        plan.local, backend, request.format));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<ExpertCache> cache,
                   ExpertCache::Create(backend, config, plan.local, *bank_,
                                       {.slots = plan.memory.expert_slots,
                                        .fetch_threads = request.threads,
                                        .format = request.format},
                                       request.observer));
  cache_ = cache.get();
  experts_ = std::move(cache);
  return absl::OkStatus();
}

}  // namespace phalanx
