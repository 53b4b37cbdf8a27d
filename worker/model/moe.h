#ifndef PHALANX_WORKER_MODEL_MOE_H_
#define PHALANX_WORKER_MODEL_MOE_H_

#include <cstdint>

#include "kernels/ops.h"
#include "worker/checkpoint/weights.h"
#include "worker/experts/expert_source.h"
#include "worker/model/scratch.h"

namespace phalanx {

// One layer's mixture: E experts of local width I, K a token, and a shared one
// of local width Is.
struct MoeShape {
  int64_t E = 0;
  int64_t K = 0;
  int64_t I = 0;
  int64_t Is = 0;
  bool renormalise = true;
  int slices = 0;      // Of the down contractions, on this rank.
  bool whole = false;  // Nothing of it is on another rank.
};

// Router, routed experts and the gated shared expert.
//
//   partial <- sum_e w_e Down_e(silu(Gate_e x) * Up_e x)
//            + sigmoid(Wg x) Shared(x)
//
// Both are terms of one sum over ranks, so the mixture costs one all-reduce,
// or none where it is whole; the caller does it. Holds references only; made
// with the model, called by the engine thread. Source: model_spec.md 2.6.
class Moe {
 public:
  // `layer` is its number among all layers, as `experts` counts them.
  Moe(Ops& ops, Scratch& scratch, ExpertSource& experts,
      const MoeWeights& weights, const MoeShape& shape, int layer)
      : ops_(ops),
        scratch_(scratch),
        experts_(experts),
        w_(weights),
        shape_(shape),
        layer_(layer) {}

  // x [T, H] act; partial [T, H] f32.
  void Forward(Tensor x, Tensor partial);

  // True where `partial` is all of the sum.
  bool whole() const { return shape_.whole; }

  // Scratch that Forward takes for T tokens.
  static int64_t ScratchBytes(const MoeShape& shape, int64_t T, DType act);

 private:
  Ops& ops_;
  Scratch& scratch_;
  ExpertSource& experts_;
  const MoeWeights& w_;
  MoeShape shape_;
  int layer_;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_MODEL_MOE_H_
