#ifndef PHALANX_WORKER_PLAN_SHARES_H_
#define PHALANX_WORKER_PLAN_SHARES_H_

// Bytes that one rank holds, by what they are for: the units of model_spec.md
// 5.1. Pure functions; each size is that of a slice that the loader cuts
// (tensor_rules.h) or of a cache that the model makes, from the same
// LocalShape.

#include <cstdint>

#include "kernels/tensor.h"
#include "kernels/weight_format.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/model_config.h"

namespace phalanx {

// What the large matrices are held in. kInt8, kInt4: those that
// MayBeQuantised, with a bf16 scale a group (kernels/weight_format.h). kFp8,
// which no backend holds yet: one byte an element and a bf16 scale for each
// block of 128 x 128 (model_spec.md 3.3); the head stays bf16 as well.
enum class HeldFormat : uint8_t { kBf16, kInt8, kInt4, kFp8 };
const char* HeldFormatName(HeldFormat format);  // As --weights spells it.
HeldFormat HeldAs(WeightFormat format);

// Bytes of an element of the three vectors of a GDN layer that releases store
// in different types. The defaults are those of the unit table.
struct GdnVectorBytes {
  int64_t a_log = 4;
  int64_t dt_bias = 4;
  int64_t norm = 2;
};

// As the files have them; where layers differ, the larger.
GdnVectorBytes GdnVectorBytesOf(const Checkpoint& checkpoint);

// How weights are counted.
struct WeightTypes {
  HeldFormat format = HeldFormat::kBf16;
  GdnVectorBytes gdn = {};
};

// All but the routed experts, over all layers.
struct NonExpertShare {
  // embed_tokens and lm_head; once where tied and of one format.
  int64_t vocabulary = 0;
  int64_t attention = 0;
  int64_t gdn = 0;
  int64_t shared_experts = 0;
  int64_t routers = 0;  // Routers and the shared experts' gates.
  int64_t mlp = 0;      // Of dense models.
  int64_t norms = 0;    // Of layers and the final one.

  int64_t total() const {
    return vocabulary + attention + gdn + shared_experts + routers + mlp +
           norms;
  }
};
NonExpertShare NonExpertShareOf(const ModelConfig& config,
                                const LocalShape& local,
                                const WeightTypes& types);

// One routed expert of one layer; 0 in a dense model.
int64_t ExpertBytes(const ModelConfig& config, const LocalShape& local,
                    HeldFormat format);

// Keys and values of one token in all attention layers.
int64_t KvTokenBytes(const ModelConfig& config, const LocalShape& local,
                     DType activations);

// One sequence's state in all GDN layers: S, f32, and the window of the
// convolution.
int64_t StateBytes(const ModelConfig& config, const LocalShape& local,
                   DType activations);

}  // namespace phalanx

#endif  // PHALANX_WORKER_PLAN_SHARES_H_
