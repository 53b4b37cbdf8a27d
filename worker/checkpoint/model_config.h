#ifndef PHALANX_WORKER_CHECKPOINT_MODEL_CONFIG_H_
#define PHALANX_WORKER_CHECKPOINT_MODEL_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/weight_format.h"

namespace phalanx {

// quantization_config of what `phalanx quantize` makes: {"quant_method":
// "phalanx", "weights": "int8" or "int4", "version": kQuantiserVersion of
// kernels/quantise.h, "digest": D, "source_digest": S}; see CodesOrigin.
inline constexpr absl::string_view kOwnQuantMethod = "phalanx";

// What `phalanx quantize` says of the codes that it wrote: ModelDigest
// (digest.h) of its own checkpoint, and of the one it was made from.
struct CodesOrigin {
  std::string digest;
  std::string source_digest;
};

// How a checkpoint names and cuts its tensors (model_spec.md 1.1). Others are
// refused by name. Whether layers have experts is another matter, see
// ModelConfig::has_experts.
enum class Dialect : uint8_t {
  // qwen3_5_moe, qwen3_5: text_config, model.language_model. prefix.
  kNested,
  // qwen3_5_moe_text, qwen3_5_text: text fields at the root, model. prefix.
  kFlat,
  // qwen3_next: as kFlat; in_proj grouped per key head.
  kNext,
};

enum class LayerKind : uint8_t { kLinearAttention, kFullAttention };

// What config.json says of the text model, checked as a whole. Plain values,
// named as the file names them.
struct ModelConfig {
  Dialect dialect = Dialect::kNested;
  std::string model_type;
  int64_t hidden_size = 0;
  int64_t vocab_size = 0;
  int64_t max_position_embeddings = 0;
  float rms_norm_eps = 0;
  bool tie_word_embeddings = false;
  bool block_fp8 = false;  // Matrices may be FP8 with multipliers per block.
  // What those that MayBeQuantised are stored in: codes where `phalanx
  // quantize` made the checkpoint.
  WeightFormat stored_weights = WeightFormat::kBf16;
  // Where they are codes; those that were made before 2026-12-01 do not say.
  std::optional<CodesOrigin> codes_origin;
  std::vector<LayerKind> layer_types;  // One a layer.

  // Gated attention.
  int64_t num_attention_heads = 0;
  int64_t num_key_value_heads = 0;
  int64_t head_dim = 0;
  int64_t rotary_dim = 0;
  double rope_theta = 0;

  // Gated delta net.
  int64_t linear_num_key_heads = 0;
  int64_t linear_num_value_heads = 0;
  int64_t linear_key_head_dim = 0;
  int64_t linear_value_head_dim = 0;
  int64_t linear_conv_kernel_dim = 0;

  // Mixture of experts; all 0 in a dense model.
  int64_t num_experts = 0;
  int64_t num_experts_per_tok = 0;
  int64_t moe_intermediate_size = 0;
  int64_t shared_expert_intermediate_size = 0;
  bool norm_topk_prob = true;

  // The one MLP of each layer of a dense model; 0 where there are experts.
  int64_t intermediate_size = 0;

  bool has_experts() const { return num_experts > 0; }
  // The head has a tensor of its own. Of tied embeddings it has none, unless
  // it was quantised: then the table is bf16 and the head is codes.
  bool has_lm_head() const {
    return !tie_word_embeddings || stored_weights != WeightFormat::kBf16;
  }
  int64_t num_layers() const {
    return static_cast<int64_t>(layer_types.size());
  }
};

// Reads config.json text. INVALID_ARGUMENT names the key, the value and what is
// allowed; UNIMPLEMENTED names a dialect that is not built, and what to use.
// Unknown keys are ignored.
absl::StatusOr<ModelConfig> ParseModelConfig(absl::string_view json);

// INVALID_ARGUMENT where weights that are stored as codes would have to be held
// in another format: codes are made from the whole, never from codes.
absl::Status CheckHeldFormat(const ModelConfig& config, WeightFormat held);

// What the flag --weights says of this model: auto, which is what it is stored
// in, or a name of kWeightFormatNames. Errors as above, and for other names.
absl::StatusOr<WeightFormat> HeldFormatOf(const ModelConfig& config,
                                          absl::string_view weights_flag);

// The defaults that generation_config.json gives to a request.
struct GenerationConfig {
  std::vector<int32_t> eos_token_ids;  // Union with config.json's, sorted.
  float temperature = 1.0f;
  float top_p = 1.0f;
  int32_t top_k = 0;
  float min_p = 0.0f;
};

// From the texts of both files; nothing where there is no
// generation_config.json. Errors name file, key and value as above.
absl::StatusOr<GenerationConfig> ParseGenerationConfig(
    absl::string_view config_json,
    std::optional<absl::string_view> generation_json);

// Reads both files of a model folder. An absent generation_config.json leaves
// the defaults; an absent config.json is NOT_FOUND.
absl::StatusOr<ModelConfig> LoadModelConfig(const std::string& model_dir);
absl::StatusOr<GenerationConfig> LoadGenerationConfig(
    const std::string& model_dir);

// What one rank of `tp_size` holds: the one place where local sizes are made,
// for weights, caches and model alike. H, D and so on are not split.
struct LocalShape {
  int rank = 0;
  int tp_size = 1;
  int slices = 8;  // kContractionSlices / tp_size.
  int64_t query_heads = 0;
  int64_t kv_heads = 0;       // 1 where ranks outnumber the heads.
  int64_t first_kv_head = 0;  // floor(rank * num_key_value_heads / tp_size).
  int64_t gdn_key_heads = 0;
  int64_t gdn_value_heads = 0;
  int64_t conv_channels = 0;  // q | k | v of the local heads.
  // The mixture of experts may be whole on every rank while all else is cut
  // (offload from a full bank): then part 0 of 1, all slices and widths.
  int moe_part = 0;  // Which part of every expert is here: the rank.
  int moe_parts = 1;
  int moe_slices = 8;  // kContractionSlices / moe_parts.
  int64_t expert_width = 0;
  int64_t shared_width = 0;
  int64_t mlp_width = 0;    // Of dense models: of every layer's MLP.
  int64_t vocab_rows = 0;   // ceil(vocab / tp_size); the last may be padded.
  int64_t first_vocab = 0;  // rank * vocab_rows.
};

// INVALID_ARGUMENT names the field that tp_size does not divide, and which
// sizes are possible.
absl::StatusOr<LocalShape> MakeLocalShape(const ModelConfig& config, int rank,
                                          int tp_size);

// `shape` with every expert, the shared one included, whole on this rank.
LocalShape WithWholeExperts(const ModelConfig& config, LocalShape shape);

}  // namespace phalanx

#endif  // PHALANX_WORKER_CHECKPOINT_MODEL_CONFIG_H_
