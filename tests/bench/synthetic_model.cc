#include "tests/bench/synthetic_model.h"

#include <cmath>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/status.h"
#include "worker/checkpoint/fp8.h"
#include "worker/checkpoint/tensor_names.h"
#include "worker/checkpoint/tensor_rules.h"

namespace phalanx {
namespace {

using nlohmann::json;
using enum TensorRole;

constexpr char kPrefix[] = "model.language_model.";
constexpr double kNormDeviation = 0.05;

json TextConfig(const SyntheticModel& m) {
  json text = {{"model_type", "qwen3_5_moe_text"},
               {"vocab_size", m.vocab},
               {"hidden_size", m.hidden},
               {"num_hidden_layers", m.layers},
               {"num_attention_heads", m.heads},
               {"num_key_value_heads", m.kv_heads},
               {"head_dim", m.head_dim},
               {"attn_output_gate", true},
               {"attention_bias", false},
               {"hidden_act", "silu"},
               {"rms_norm_eps", 1e-6},
               {"linear_num_key_heads", m.gdn_key_heads},
               {"linear_num_value_heads", m.gdn_value_heads},
               {"linear_key_head_dim", m.gdn_head_dim},
               {"linear_value_head_dim", m.gdn_head_dim},
               {"linear_conv_kernel_dim", 4},
               {"mamba_ssm_dtype", "float32"},
               {"num_experts", m.experts},
               {"num_experts_per_tok", m.experts_per_token},
               {"moe_intermediate_size", m.expert_width},
               {"shared_expert_intermediate_size", m.expert_width},
               {"full_attention_interval", 4},
               {"max_position_embeddings", m.context},
               {"dtype", "bfloat16"},
               {"tie_word_embeddings", false}};
  text["rope_parameters"] = {{"rope_type", "default"},
                             {"rope_theta", 10000000.0},
                             {"partial_rotary_factor", 0.25}};
  return text;
}

int64_t ElementBytes(StoredType type) {
  if (type == StoredType::kF8E4M3) return 1;
  return type == StoredType::kF32 ? 4 : 2;
}

// Of a tensor that is not FP8. Matrices multiply their last dimension; each
// channel of the convolution its own window.
NumberLaw LawOf(TensorRole role, const std::vector<int64_t>& shape) {
  const double deviation = 1 / std::sqrt(static_cast<double>(shape.back()));
  switch (role) {
    case kALog:
      return {.kind = NumberLaw::kLogDecay};
    case kDtBias:
      return {.kind = NumberLaw::kTimeStep};
    case kGdnNorm:
      return {.mean = 1, .deviation = kNormDeviation};
    case kInputNorm:
    case kPostAttentionNorm:
    case kFinalNorm:
    case kQNorm:
    case kKNorm:
      return {.deviation = kNormDeviation};
    case kLmHead:
      return {.deviation = 2 * deviation};
    default:
      return {.deviation = deviation};
  }
}

// In the order of the file.
class TensorList {
 public:
  explicit TensorList(const ModelConfig& config) : config_(config) {
    Add({kEmbed}, -1);
    for (int layer = 0; layer < config.num_layers(); ++layer) AddLayer(layer);
    Add({kFinalNorm, kLmHead}, -1);
  }

  std::vector<SyntheticTensor> Take() { return std::move(tensors_); }

 private:
  void AddLayer(int layer) {
    Add({kInputNorm}, layer);
    if (config_.layer_types[static_cast<size_t>(layer)] ==
        LayerKind::kFullAttention)
      Add({kQProj, kKProj, kVProj, kOProj, kQNorm, kKNorm}, layer);
    else
      Add({kInProjQkv, kInProjZ, kInProjB, kInProjA, kConv, kALog, kDtBias,
           kGdnNorm, kOutProj},
          layer);
    Add({kPostAttentionNorm, kRouter, kSharedGateProj, kSharedUpProj,
         kSharedDownProj, kSharedExpertGate},
        layer);
    if (!config_.block_fp8) return Add({kExpertsGateUp, kExpertsDown}, layer);
    for (int e = 0; e < config_.num_experts; ++e)
      Add({kExpertGate, kExpertUp, kExpertDown}, layer, e);
  }

  void Add(std::initializer_list<TensorRole> roles, int layer,
           int expert = -1) {
    for (const TensorRole role : roles) {
      TensorId id{.role = role, .layer = layer, .expert = expert};
      std::vector<int64_t> shape = ExpectedShape(role, config_);
      const NumberLaw law = LawOf(role, shape);
      if (!IsFp8(role)) {
        AddOne(id, PlainType(role), std::move(shape), law);
        continue;
      }
      AddOne(id, StoredType::kF8E4M3, std::move(shape),
             {.kind = NumberLaw::kFp8Codes});
      id.scale = ScaleKind::kBlocks;
      AddOne(id, StoredType::kBf16, ScaleShape(role, config_),
             {.kind = NumberLaw::kFp8Multipliers, .deviation = law.deviation});
    }
  }

  void AddOne(const TensorId& id, StoredType type, std::vector<int64_t> shape,
              const NumberLaw& law) {
    int64_t bytes = ElementBytes(type);
    for (const int64_t size : shape) bytes *= size;
    tensors_.push_back({.name = TensorName(id, kPrefix),
                        .type = type,
                        .shape = std::move(shape),
                        .law = law,
                        .bytes = bytes});
  }

  // The block-FP8 releases leave the small matrices as they were.
  bool IsFp8(TensorRole role) const {
    return config_.block_fp8 && MayBeFp8(role) && role != kRouter &&
           role != kSharedExpertGate && role != kInProjB && role != kInProjA;
  }

  // As the releases store them: two in F32, but in FP8's bf16.
  StoredType PlainType(TensorRole role) const {
    return !config_.block_fp8 && IsAllowedType(role, StoredType::kF32)
               ? StoredType::kF32
               : StoredType::kBf16;
  }

  const ModelConfig& config_;
  std::vector<SyntheticTensor> tensors_;
};

}  // namespace

absl::StatusOr<std::string> SyntheticConfigJson(const SyntheticModel& model) {
  json config = {{"model_type", "qwen3_5_moe"},
                 {"architectures", {"Qwen3_5MoeForConditionalGeneration"}},
                 {"tie_word_embeddings", false},
                 {"text_config", TextConfig(model)}};
  if (model.fp8)
    config["quantization_config"] = {
        {"quant_method", "fp8"},
        {"fmt", "e4m3"},
        {"activation_scheme", "dynamic"},
        {"weight_block_size", {kFp8Block, kFp8Block}}};
  std::string text = config.dump(1);
  RETURN_IF_ERROR(ParseModelConfig(text).status());
  return text;
}

std::vector<SyntheticTensor> ListSyntheticTensors(const ModelConfig& config) {
  return TensorList(config).Take();
}

}  // namespace phalanx
