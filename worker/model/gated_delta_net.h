#ifndef PHALANX_WORKER_MODEL_GATED_DELTA_NET_H_
#define PHALANX_WORKER_MODEL_GATED_DELTA_NET_H_

#include <cstdint>

#include "kernels/ops.h"
#include "worker/cache/state_cache.h"
#include "worker/checkpoint/weights.h"
#include "worker/model/scratch.h"
#include "worker/model/step.h"

namespace phalanx {

// Local heads of one gated-delta-net layer.
struct GdnShape {
  int64_t Nk = 0;
  int64_t Nv = 0;
  int64_t Dk = 0;
  int64_t Dv = 0;
  float eps = 0;
  int slices = 0;  // Of the output contraction, on this rank.
};

// The linear-attention mixer: a short convolution, then the gated delta rule.
//
//   partial <- GatedNorm(DeltaRule(conv(q|k|v), g, beta), z) Wout
//
// The result is this rank's term of a sum over ranks; the caller adds them up.
// Holds references only; made with the model, called by the engine thread.
// Source: Yang, Kautz, Hatamizadeh 2024, arXiv:2412.06464.
class GatedDeltaNet {
 public:
  // `layer` counts GDN layers, as StateCache does.
  GatedDeltaNet(Ops& ops, Scratch& scratch, const StateCache& cache,
                const GdnWeights& weights, const GdnShape& shape, int64_t layer)
      : ops_(ops),
        scratch_(scratch),
        cache_(cache),
        w_(weights),
        shape_(shape),
        layer_(layer) {}

  // x [T, H] act; partial [T, H] f32.
  void Forward(const Step& step, Tensor x, Tensor partial);

  // Scratch that Forward takes for T tokens.
  static int64_t ScratchBytes(const GdnShape& shape, int64_t T, DType act);

 private:
  Ops& ops_;
  Scratch& scratch_;
  const StateCache& cache_;
  const GdnWeights& w_;
  GdnShape shape_;
  int64_t layer_;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_MODEL_GATED_DELTA_NET_H_
