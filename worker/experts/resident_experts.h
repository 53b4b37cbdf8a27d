#ifndef PHALANX_WORKER_EXPERTS_RESIDENT_EXPERTS_H_
#define PHALANX_WORKER_EXPERTS_RESIDENT_EXPERTS_H_

#include <variant>

#include "worker/checkpoint/weights.h"
#include "worker/experts/expert_source.h"

namespace phalanx {

// Every expert is on the device, where the loader put it. Also for dense
// models, which never ask for one.
class ResidentExperts final : public ExpertSource {
 public:
  // `weights` outlives this.
  explicit ResidentExperts(const Weights& weights) : weights_(weights) {}

  void Begin(int, const Routing&) override {}
  ExpertView Wait(int layer) override {
    const MoeWeights& moe = std::get<MoeWeights>(
        weights_.layers[static_cast<size_t>(layer)].feed_forward);
    return {.gate_up = &moe.experts_gate_up,
            .down = &moe.experts_down,
            .places = {}};
  }

 private:
  const Weights& weights_;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_EXPERTS_RESIDENT_EXPERTS_H_
