#ifndef PHALANX_WORKER_CHECKPOINT_TENSOR_NAMES_H_
#define PHALANX_WORKER_CHECKPOINT_TENSOR_NAMES_H_

// What the tensors of a checkpoint are called (model_spec.md 3.1, 3.2). The
// nested and the flat dialect differ in the prefix alone, fused experts from
// single ones in three names, Qwen3-Next in two, and dense models in all of
// mlp; a block-FP8 weight has its
// multipliers in a second tensor, named after it, and so has one that `phalanx
// quantize` made its scales. A dialect with other tensors
// adds its roles here, its shapes and slices in tensor_rules.cc, and its
// copying to the loader.

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace phalanx {

enum class TensorRole : uint8_t {
  kEmbed,
  kLmHead,
  kFinalNorm,
  kInputNorm,
  kPostAttentionNorm,
  // self_attn
  kQProj,  // Per head: query rows, then gate rows.
  kKProj,
  kVProj,
  kOProj,
  kQNorm,
  kKNorm,
  // linear_attn
  kInProjQkv,
  kInProjZ,
  kInProjB,
  kInProjA,
  kInProjQkvz,  // Qwen3-Next: per key head, rows of q, k, v and z.
  kInProjBa,    // Qwen3-Next: per key head, rows of b and a.
  kConv,
  kALog,
  kDtBias,
  kGdnNorm,
  kOutProj,
  // mlp
  kRouter,
  kExpertsGateUp,  // All experts of a layer in one tensor.
  kExpertsDown,
  kExpertGate,  // One expert.
  kExpertUp,
  kExpertDown,
  kSharedGateProj,
  kSharedUpProj,
  kSharedDownProj,
  kSharedExpertGate,
  kMlpGateProj,  // Dense models: the one MLP of a layer.
  kMlpUpProj,
  kMlpDownProj,
  // The MTP head alone.
  kMtpFc,
  kMtpNormHidden,
  kMtpNormEmbedding,
};

// What a tensor beside a weight holds.
enum class ScaleKind : uint8_t {
  kNone,    // It is the weight.
  kBlocks,  // FP8 multipliers: X.weight_scale_inv.
  kGroups,  // kernels/weight_format.h: X.scales.
};

// Which tensor a name means. `layer` and `expert` are -1 where the role has
// none.
struct TensorId {
  bool mtp = false;  // Of the MTP head, which has layers of its own.
  TensorRole role = TensorRole::kEmbed;
  int layer = -1;
  int expert = -1;
  ScaleKind scale = ScaleKind::kNone;

  auto operator<=>(const TensorId&) const = default;
};

// Nothing for a name that is not of this family's text model or MTP head.
std::optional<TensorId> ParseTensorName(absl::string_view name);

// True for what a text service passes over without a word: the MTP head, the
// vision tower, scales of quantised caches.
bool IsSkippedTensor(absl::string_view name);

// The name under `prefix` ("model.language_model.", "model."): the inverse of
// ParseTensorName for tensors of the text model, for error messages.
std::string TensorName(const TensorId& id, absl::string_view prefix);

// What the scales of the groups of weight `name` are called.
std::string GroupScalesName(absl::string_view name);

// The prefix of the language model that `name` carries; empty if none.
absl::string_view LanguagePrefix(absl::string_view name);

}  // namespace phalanx

#endif  // PHALANX_WORKER_CHECKPOINT_TENSOR_NAMES_H_
