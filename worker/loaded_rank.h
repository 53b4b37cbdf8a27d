#ifndef PHALANX_WORKER_LOADED_RANK_H_
#define PHALANX_WORKER_LOADED_RANK_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/loader.h"
#include "worker/checkpoint/model_config.h"
#include "worker/checkpoint/weights.h"
#include "worker/engine/model_runner.h"
#include "worker/experts/expert_bank.h"
#include "worker/experts/expert_cache.h"
#include "worker/experts/expert_source.h"
#include "worker/rank_plan.h"

namespace phalanx {

// Where a loading rank finds things, and what it does them with.
struct LoadRequest {
  Checkpoint checkpoint;
  std::string model_digest;  // ModelDigest of it.
  WeightFormat format = WeightFormat::kBf16;
  std::string pack_cache;  // Folder of packed banks; empty: none is made.
  int threads = 1;         // That load, and later fetch experts.
  // Where they run, so that weights and caches lie in the memory of those that
  // compute with them; empty: anywhere.
  std::vector<int> cpus = {};
  // Told how a packed bank is made, where this rank makes it, and after that
  // how the weights come in; by any of those threads.
  std::function<void(const LoadProgress&)> on_pack_progress = nullptr;
  std::function<void(const LoadProgress&)> on_progress = nullptr;
  const std::atomic<bool>* stop = nullptr;  // True: CANCELLED, soon.
  FetchObserver* observer = nullptr;        // May be null; outlives the rank.
};

// What a rank holds once it has loaded, all epochs long: weights, the way to
// its experts, caches and model. Made once; the engine thread's. The backend
// and the config outlive it.
class LoadedRank {
 public:
  // Loads as `plan` says: all weights where experts are resident, else all but
  // the routed experts, and a cache of plan.memory.expert_slots over a bank,
  // which is the checkpoint itself or a packed file. Errors are those of
  // LoadWeights, ExpertCache, PackedBank and ModelRunner.
  static absl::StatusOr<std::unique_ptr<LoadedRank>> Create(
      LoadRequest request, const ModelConfig& config, const RankPlan& plan,
      Backend& backend);

  const Weights& weights() const { return weights_; }
  ModelRunner& runner() { return *runner_; }

  // Null where experts are resident.
  const ExpertCache* expert_cache() const { return cache_; }
  int64_t bank_bytes() const { return bank_ == nullptr ? 0 : bank_->bytes(); }

 private:
  LoadedRank() = default;
  absl::Status CacheExperts(LoadRequest request, const ModelConfig& config,
                            const RankPlan& plan, Backend& backend);

  // Each is referred to by the next.
  Weights weights_;
  std::unique_ptr<ExpertBank> bank_;
  std::unique_ptr<ExpertSource> experts_;
  std::unique_ptr<ModelRunner> runner_;
  const ExpertCache* cache_ = nullptr;  // experts_, where it is one.
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_LOADED_RANK_H_
