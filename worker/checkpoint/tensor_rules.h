#ifndef PHALANX_WORKER_CHECKPOINT_TENSOR_RULES_H_
#define PHALANX_WORKER_CHECKPOINT_TENSOR_RULES_H_

// What each tensor of the family must look like and which piece of it a rank
// holds: the tables of model_spec.md 3.1 and 4.2.

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "worker/checkpoint/model_config.h"
#include "worker/checkpoint/safetensors.h"
#include "worker/checkpoint/shard.h"
#include "worker/checkpoint/tensor_names.h"

namespace phalanx {

// A rank's piece: `ranges` along `dim`, in order, concatenated. Without a
// dimension the tensor is held whole.
struct TensorSlice {
  static constexpr int kWhole = -1;

  int dim = kWhole;
  std::vector<Range> ranges;
  int64_t padding = 0;  // Zero rows to add at the end: vocabulary only.
};

// As the checkpoint stores it, before any rank cuts it.
std::vector<int64_t> ExpectedShape(TensorRole role, const ModelConfig& config);

// Of a tensor without multipliers: BF16 for all; F32 as well where releases
// store it so.
bool IsAllowedType(TensorRole role, StoredType type);

// True for matrices that a block-FP8 release may store as codes and
// multipliers: those of the layers, each expert on its own.
bool MayBeFp8(TensorRole role);

// True for matrices that a rank holds in the format it runs in (kernels/
// weight_format.h): the large ones. All else stays bf16 or f32: routers, gates,
// b, a, embeddings.
bool MayBeQuantised(TensorRole role);

// Slices of the role's contraction on this rank (design.md section 3, rule 1):
// its share of 8 where ranks share the columns, else 1.
int SlicesOf(TensorRole role, const LocalShape& shape);

// Of the multipliers of a matrix that may be FP8.
std::vector<int64_t> ScaleShape(TensorRole role, const ModelConfig& config);

TensorSlice SliceOf(TensorRole role, const ModelConfig& config,
                    const LocalShape& shape);

// By the checkpoint's name, MTP head included. Nothing for an unknown name, or
// for multipliers: their weight's slice says which are read.
std::optional<TensorSlice> SliceOfName(absl::string_view name,
                                       const ModelConfig& config,
                                       const LocalShape& shape);

}  // namespace phalanx

#endif  // PHALANX_WORKER_CHECKPOINT_TENSOR_RULES_H_
