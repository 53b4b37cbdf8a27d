#ifndef PHALANX_WORKER_EXPERTS_RESIDENT_EXPERTS_H_
#define PHALANX_WORKER_EXPERTS_RESIDENT_EXPERTS_H_

#include "worker/checkpoint/weights.h"
#include "worker/experts/expert_source.h"

namespace phalanx {

// Every expert is on the device, where the loader put it.
class ResidentExperts final : public ExpertSource {
 public:
  // `weights` outlives this.
  explicit ResidentExperts(const Weights& weights) : weights_(weights) {}

  void Begin(int, const Routing&) override {}
  ExpertView Wait(int layer) override {
    const MoeWeights& moe = weights_.layers[static_cast<size_t>(layer)].moe;
    return {.gate_up = &moe.experts_gate_up,
            .down = &moe.experts_down,
            .places = {}};
  }

 private:
  const Weights& weights_;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_EXPERTS_RESIDENT_EXPERTS_H_
