#ifndef PHALANX_WORKER_CHECKPOINT_WEIGHTS_H_
#define PHALANX_WORKER_CHECKPOINT_WEIGHTS_H_

// One rank's weights as the model reads them, named as the checkpoint names
// them. Const after load. The quirks of files end in the loader: "1 + w" norms
// are folded into f32, the query and gate rows of q_proj are parted, fused
// parts are cut part by part, KV heads are replicated where ranks outnumber
// them.
//
// Marked (q): in the format that the rank runs in; all other matrices are bf16
// whatever that is.

#include <variant>
#include <vector>

#include "kernels/buffer.h"
#include "kernels/packed_weight.h"
#include "kernels/tensor.h"

namespace phalanx {

struct AttentionWeights {
  PackedWeight qgkv;  // (q) Rows: queries | gates | keys | values, local heads.
  Tensor q_norm;      // [D] f32, 1 + w.
  Tensor k_norm;      // [D] f32, 1 + w.
  PackedWeight o;     // (q) [H, local Nq * D]; sliced.
};

struct GdnWeights {
  PackedWeight in_proj;   // (q) Rows: q | k | v | z of local heads.
  PackedWeight ba_proj;   // Rows: b | a of local heads.
  Tensor conv;            // [q | k | v channels, W] f32.
  Tensor a_log;           // [local Nv] f32.
  Tensor dt_bias;         // [local Nv] f32.
  Tensor norm;            // [Dv] f32; multiplies directly.
  PackedWeight out_proj;  // (q) [H, local Nv * Dv]; sliced.
};

struct MoeWeights {
  PackedWeight router;           // [E, H]; replicated.
  PackedWeight experts_gate_up;  // (q) E x [2 I, H], kGateUp.
  PackedWeight experts_down;     // (q) E x [H, I]; sliced.
  PackedWeight shared_gate_up;   // (q) [2 Is, H], kGateUp.
  PackedWeight shared_down;      // (q) [H, Is]; sliced.
  PackedWeight shared_gate;      // [1, H]; replicated.
};

// Of a dense model, in place of the mixture.
struct MlpWeights {
  PackedWeight gate_up;  // (q) [2 I, H], kGateUp.
  PackedWeight down;     // (q) [H, I]; sliced.
};

struct LayerWeights {
  Tensor mixer_norm;         // input_layernorm, [H] f32, 1 + w.
  Tensor feed_forward_norm;  // post_attention_layernorm, [H] f32, 1 + w.
  std::variant<AttentionWeights, GdnWeights> mixer;
  std::variant<MoeWeights, MlpWeights> feed_forward;
};

struct Weights {
  Tensor embed;  // [vocab_rows, H] bf16: this rank's rows, padding is zero.
  std::vector<LayerWeights> layers;
  Tensor norm;                  // [H] f32, 1 + w.
  PackedWeight lm_head;         // (q) [vocab_rows, H].
  Tensor inv_freq;              // [rotary_dim / 2] f32.
  std::vector<Buffer> storage;  // Of the plain tensors above.

  // What this rank holds of the checkpoint, in its format, without the padding
  // of layouts.
  int64_t expert_bytes = 0;      // Routed experts.
  int64_t non_expert_bytes = 0;  // All else.
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_CHECKPOINT_WEIGHTS_H_
