#ifndef PHALANX_WORKER_MODEL_DECODER_LAYER_H_
#define PHALANX_WORKER_MODEL_DECODER_LAYER_H_

#include <variant>

#include "kernels/ops.h"
#include "worker/checkpoint/weights.h"
#include "worker/collective/collective.h"
#include "worker/model/attention.h"
#include "worker/model/gated_delta_net.h"
#include "worker/model/mlp.h"
#include "worker/model/moe.h"
#include "worker/model/scratch.h"
#include "worker/model/step.h"

namespace phalanx {

using Mixer = std::variant<GatedAttention, GatedDeltaNet>;
using FeedForward = std::variant<Moe, Mlp>;

// One block of the stack. h [T, H] is the same on every rank before and after.
//
//   h <- h + Mixer(RmsNorm(h))        Mixer: gated delta net or attention
//   h <- h + FeedForward(RmsNorm(h))  mixture of experts, or one MLP
//
// The two all-reduces in Forward are all the communication that a layer does;
// the second is not needed where every rank computes the whole mixture.
// Holds references only; made with the model, called by the engine thread.
class DecoderLayer {
 public:
  DecoderLayer(Ops& ops, Scratch& scratch, const LayerWeights& weights,
               float eps, Mixer mixer, FeedForward feed_forward)
      : ops_(ops),
        scratch_(scratch),
        w_(weights),
        eps_(eps),
        mixer_(std::move(mixer)),
        feed_forward_(std::move(feed_forward)) {}

  // h [T, H] act, in place.
  void Forward(const Step& step, Collective& comm, Tensor h);

  // Scratch of a layer apart from its mixer's and its feed-forward's.
  static int64_t ScratchBytes(int64_t H, int64_t T, DType act);

 private:
  Ops& ops_;
  Scratch& scratch_;
  const LayerWeights& w_;
  float eps_;
  Mixer mixer_;
  FeedForward feed_forward_;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_MODEL_DECODER_LAYER_H_
