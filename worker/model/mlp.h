#ifndef PHALANX_WORKER_MODEL_MLP_H_
#define PHALANX_WORKER_MODEL_MLP_H_

#include <cstdint>

#include "kernels/ops.h"
#include "worker/checkpoint/weights.h"
#include "worker/model/scratch.h"

namespace phalanx {

// One layer's MLP of local width I.
struct MlpShape {
  int64_t I = 0;
  int slices = 0;  // Of the down contraction, on this rank.
};

// The gated MLP of a dense model, where others have a mixture.
//
//   partial <- Down(silu(Gate x) * Up x)
//
// The result is this rank's term of a sum over ranks; the caller adds them up.
// Holds references only; made with the model, called by the engine thread.
// Source: Shazeer 2020, arXiv:2002.05202; model_spec.md 1.1.
class Mlp {
 public:
  Mlp(Ops& ops, Scratch& scratch, const MlpWeights& weights,
      const MlpShape& shape)
      : ops_(ops), scratch_(scratch), w_(weights), shape_(shape) {}

  // x [T, H] act; partial [T, H] f32.
  void Forward(Tensor x, Tensor partial);

  // Scratch that Forward takes for T tokens.
  static int64_t ScratchBytes(const MlpShape& shape, int64_t T, DType act);

 private:
  Ops& ops_;
  Scratch& scratch_;
  const MlpWeights& w_;
  MlpShape shape_;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_MODEL_MLP_H_
