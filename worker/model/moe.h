#ifndef PHALANX_WORKER_MODEL_MOE_H_
#define PHALANX_WORKER_MODEL_MOE_H_

#include <cstdint>

#include "kernels/ops.h"
#include "worker/checkpoint/weights.h"
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
  int slices = 0;  // Of the down contractions, on this rank.
};

// Router, routed experts and the gated shared expert.
//
//   partial <- sum_e w_e Down_e(silu(Gate_e x) * Up_e x)
//            + sigmoid(Wg x) Shared(x)
//
// Both are terms of one sum over ranks, so the mixture costs one all-reduce;
// the caller does it. Holds references only; made with the model, called by the
// engine thread. Source: model_spec.md 2.6.
class Moe {
 public:
  Moe(Ops& ops, Scratch& scratch, const MoeWeights& weights,
      const MoeShape& shape)
      : ops_(ops), scratch_(scratch), w_(weights), shape_(shape) {}

  // x [T, H] act; partial [T, H] f32.
  void Forward(Tensor x, Tensor partial);

  // Scratch that Forward takes for T tokens.
  static int64_t ScratchBytes(const MoeShape& shape, int64_t T, DType act);

 private:
  Ops& ops_;
  Scratch& scratch_;
  const MoeWeights& w_;
  MoeShape shape_;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_MODEL_MOE_H_
