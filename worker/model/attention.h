#ifndef PHALANX_WORKER_MODEL_ATTENTION_H_
#define PHALANX_WORKER_MODEL_ATTENTION_H_

#include <cstdint>

#include "kernels/ops.h"
#include "worker/cache/kv_cache.h"
#include "worker/checkpoint/weights.h"
#include "worker/model/scratch.h"
#include "worker/model/step.h"

namespace phalanx {

// Local heads of one attention layer; D head size, F rotated pairs.
struct AttentionShape {
  int64_t Nq = 0;
  int64_t Nk = 0;
  int64_t D = 0;
  int64_t H = 0;
  float eps = 0;
  int slices = 0;  // Of the output contraction, on this rank.
};

// Gated grouped-query attention on this rank's heads.
//
//   partial <- (softmax(q k^T / sqrt(D)) v * sigmoid(gate)) Wo
//
// The result is this rank's term of a sum over ranks; the caller adds them up.
// Holds references only; made with the model, called by the engine thread.
class GatedAttention {
 public:
  // `layer` counts attention layers, as KvCache does.
  GatedAttention(Ops& ops, Scratch& scratch, const KvCache& cache,
                 const AttentionWeights& weights, Tensor inv_freq,
                 const AttentionShape& shape, int64_t layer)
      : ops_(ops),
        scratch_(scratch),
        cache_(cache),
        w_(weights),
        inv_freq_(inv_freq),
        shape_(shape),
        layer_(layer) {}

  // x [T, H] act; partial [T, H] f32.
  void Forward(const Step& step, Tensor x, Tensor partial);

  // Scratch that Forward takes for T tokens.
  static int64_t ScratchBytes(const AttentionShape& shape, int64_t T,
                              DType act);

 private:
  Ops& ops_;
  Scratch& scratch_;
  const KvCache& cache_;
  const AttentionWeights& w_;
  Tensor inv_freq_;
  AttentionShape shape_;
  int64_t layer_;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_MODEL_ATTENTION_H_
