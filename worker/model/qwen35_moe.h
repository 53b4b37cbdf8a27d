#ifndef PHALANX_WORKER_MODEL_QWEN35_MOE_H_
#define PHALANX_WORKER_MODEL_QWEN35_MOE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/backend.h"
#include "worker/cache/kv_cache.h"
#include "worker/cache/state_cache.h"
#include "worker/checkpoint/model_config.h"
#include "worker/checkpoint/weights.h"
#include "worker/collective/collective.h"
#include "worker/experts/expert_source.h"
#include "worker/model/decoder_layer.h"
#include "worker/model/scratch.h"
#include "worker/model/step.h"

namespace phalanx {

// The largest step that a model's memory is sized for.
struct StepLimits {
  int64_t tokens = 0;
  int64_t logit_rows = 0;
};

// Sees the residual stream on its way, for tests: "embed", "layers.{i}",
// "norm".
class Probe {
 public:
  virtual ~Probe() = default;
  virtual void See(absl::string_view name, Tensor h) = 0;
};

// One rank's share of the text model, with experts or dense: embed, layers,
// norm, logits. Made once the weights are loaded; refers to weights, experts
// and caches, which outlive it. Forward is called by the engine thread of every
// rank with equal steps.
class Qwen35Moe {
 public:
  static absl::StatusOr<std::unique_ptr<Qwen35Moe>> Create(
      Backend& backend, const ModelConfig& config, const LocalShape& local,
      const Weights& weights, ExpertSource& experts, const KvCache& kv_cache,
      const StateCache& state_cache, const StepLimits& limits);

  // Runs the step and returns the logits of step.logit_rows, [N, R, vocab_rows]
  // f32: plane n holds the rows of the vocabulary that rank n owns. Columns at
  // and past vocab_size (of the last planes) are padding. Valid until the next
  // call. Enqueues only.
  Tensor Forward(const Step& step, Collective& comm, Probe* probe = nullptr);

  // The layers' caches for a config and a rank, all but the pools' capacities.
  static KvCacheShape KvShape(const ModelConfig& config,
                              const LocalShape& local);
  static StateCacheShape StateShape(const ModelConfig& config,
                                    const LocalShape& local);

  // What Create allocates for activations and logits, without padding.
  static int64_t WorkspaceBytes(const ModelConfig& config,
                                const LocalShape& local,
                                const StepLimits& limits, DType act);

 private:
  Qwen35Moe(Ops& ops, const ModelConfig& config, const LocalShape& local,
            const Weights& weights, std::unique_ptr<Scratch> scratch,
            Buffer logits);
  void AddLayers(const ModelConfig& config, const LocalShape& local,
                 ExpertSource& experts, const KvCache& kv_cache,
                 const StateCache& state_cache);
  FeedForward MakeFeedForward(const ModelConfig& config,
                              const LocalShape& local, ExpertSource& experts,
                              const LayerWeights& layer);
  void Embed(const Step& step, Collective& comm, Tensor h);

  Ops& ops_;
  const Weights& w_;
  LocalShape local_;
  int64_t hidden_size_;
  float eps_;
  std::unique_ptr<Scratch> scratch_;
  Buffer logits_;  // [N, R, vocab_rows] of the largest step.
  std::vector<DecoderLayer> layers_;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_MODEL_QWEN35_MOE_H_
