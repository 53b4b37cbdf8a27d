#ifndef PHALANX_WORKER_ENGINE_MODEL_RUNNER_H_
#define PHALANX_WORKER_ENGINE_MODEL_RUNNER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "worker/cache/kv_cache.h"
#include "worker/cache/state_cache.h"
#include "worker/checkpoint/model_config.h"
#include "worker/checkpoint/weights.h"
#include "worker/collective/collective.h"
#include "worker/engine/step_inputs.h"
#include "worker/experts/expert_source.h"
#include "worker/model/qwen35_moe.h"
#include "worker/scheduler/step_plan.h"

namespace phalanx {

// One rank's model with its caches: runs plans. Made once after load, outlives
// every epoch; the engine thread's. Backend, config, weights and experts
// outlive it.
class ModelRunner {
 public:
  // Allocates the caches (limits.kv_blocks, limits.state_slots) and all that
  // the largest step needs. RESOURCE_EXHAUSTED names what did not fit.
  static absl::StatusOr<std::unique_ptr<ModelRunner>> Create(
      Backend& backend, const ModelConfig& config, const LocalShape& local,
      const Weights& weights, ExpertSource& experts,
      const StepPlanLimits& limits);

  // What a runner takes beside weights and caches, without padding: on the
  // device, what Create allocates; on the host, copies of inputs and logits of
  // the largest step.
  static int64_t DeviceWorkspaceBytes(const ModelConfig& config,
                                      const LocalShape& local,
                                      const StepPlanLimits& limits, DType act);
  static int64_t HostWorkspaceBytes(const LocalShape& local,
                                    const StepPlanLimits& limits);

  // Runs the plan on this rank, copies and rows, and waits for it. The first
  // error of device or group; after one, the caches hold nothing of use.
  absl::Status Run(const StepPlan& plan, Collective& comm,
                   Probe* probe = nullptr);

  // Logits of the last plan's row r, r below plan.logits_count(): vocab_size
  // values in id order, on the host. Valid until the next Run.
  std::span<const float> logits(int64_t r) const;

  // Of all logits of the last plan: equal on every rank, or a rank went astray.
  uint64_t LogitsHash() const;

  const KvCache& kv_cache() const { return *kv_cache_; }
  const StateCache& state_cache() const { return *state_cache_; }
  const StepPlanLimits& limits() const { return limits_; }

 private:
  ModelRunner(Backend& backend, ExpertSource& experts,
              const StepPlanLimits& limits)
      : backend_(backend), experts_(experts), limits_(limits) {}
  void CopyStates(std::span<const CacheCopy> copies);
  void FetchLogits(Tensor planes);

  Backend& backend_;
  ExpertSource& experts_;
  StepPlanLimits limits_;
  std::unique_ptr<KvCache> kv_cache_;
  std::unique_ptr<StateCache> state_cache_;
  std::unique_ptr<Qwen35Moe> model_;
  std::unique_ptr<StepInputs> inputs_;
  std::vector<float> planes_;  // [N, R, vocab_rows], as the device gave them.
  std::vector<float> logits_;  // [R, vocab_size].
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_ENGINE_MODEL_RUNNER_H_
