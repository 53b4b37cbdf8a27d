#include "worker/checkpoint/model_config.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/log.h"
#include "common/status.h"
#include "kernels/packed_weight.h"
#include "kernels/quantise.h"
#include "kernels/sequences.h"
#include "worker/checkpoint/foreign_format.h"
#include "worker/checkpoint/fp8.h"
#include "worker/checkpoint/json_fields.h"

namespace phalanx {
namespace {

using Json = nlohmann::json;

// No released model of this family comes near these; their products stay far
// from 2^63, so sizes made from a config never overflow.
constexpr int64_t kMaxWidth = 1 << 17;  // Hidden size, intermediate sizes.
constexpr int64_t kMaxLayers = 1024;
constexpr int64_t kMaxHeads = 1024;
constexpr int64_t kMaxHeadDim = 1024;
constexpr int64_t kMaxConvWidth = 16;
constexpr int64_t kMaxVocab = 1 << 24;
constexpr int64_t kMaxPositions = 1 << 27;
constexpr double kMaxTheta = 1e15;
// Below these, f32 would divide by zero or turn angles into infinities.
constexpr double kMinEps = 1e-12;
constexpr double kMinTheta = 1;

// A slice of a contraction is packed in pairs of columns, and there are
// kContractionSlices of them (design.md section 3, rule 1).
constexpr int64_t kContractionUnit = 2 * kContractionSlices;

// A model_type, what it says of the rest, and the model_type of its text_config
// where it has one.
struct ModelType {
  absl::string_view name;
  Dialect dialect;
  bool dense;
  absl::string_view text;
};

constexpr ModelType kModelTypes[] = {
    {"qwen3_5_moe", Dialect::kNested, false, "qwen3_5_moe_text"},
    {"qwen3_5_moe_text", Dialect::kFlat, false, ""},
    {"qwen3_next", Dialect::kNext, false, ""},
    {"qwen3_5", Dialect::kNested, true, "qwen3_5_text"},
    {"qwen3_5_text", Dialect::kFlat, true, ""},
};

std::string ModelTypeRule() {
  return absl::StrCat(
      "must be one of ",
      absl::StrJoin(kModelTypes, ", ",
                    [](std::string* out, const ModelType& type) {
                      absl::StrAppend(out, "\"", type.name, "\"");
                    }));
}

absl::StatusOr<ModelType> ReadModelType(const std::string& name) {
  for (const ModelType& type : kModelTypes)
    if (type.name == name) return type;
  return BadField("model_type", name, ModelTypeRule());
}

// Not json == "word": GCC 12 warns wrongly about its inlined conversion.
bool IsWord(const Json& value, absl::string_view word) {
  return value.is_string() && value.get_ref<const std::string&>() == word;
}

// A known way to store weights that is not served; `more` may name it better.
absl::Status RefuseQuantization(absl::string_view key, const Json* value,
                                absl::string_view rule,
                                absl::string_view more = "") {
  return NotServed(
      absl::StrCat(key, " is ",
                   value == nullptr ? "absent" : RenderJson(*value), more),
      rule);
}

// What else names the format: "NVFP4", "nvfp4-pack-quantized".
std::string Algorithm(const JsonFields& fields) {
  for (const char* key : {"quant_algo", "format"})
    if (const Json* value = fields.Find(key); value != nullptr)
      return absl::StrCat(" (", key, " is ", RenderJson(*value), ")");
  return "";
}

// A ModelDigest, or nothing where it is absent.
absl::StatusOr<std::string> ReadDigest(const JsonFields& fields,
                                       absl::string_view key) {
  constexpr size_t kDigits = 64;
  const Json* value = fields.Find(key);
  if (value == nullptr) return std::string();
  const auto* digest = value->get_ptr<const std::string*>();
  if (digest == nullptr || digest->size() != kDigits ||
      digest->find_first_not_of("0123456789abcdef") != std::string::npos)
    return BadField(absl::StrCat(fields.path(), key), *value,
                    "must be 64 hexadecimal digits");
  return *digest;
}

absl::Status ReadCodesOrigin(const JsonFields& fields, ModelConfig* config) {
  CodesOrigin origin;
  ASSIGN_OR_RETURN(origin.digest, ReadDigest(fields, "digest"));
  ASSIGN_OR_RETURN(origin.source_digest, ReadDigest(fields, "source_digest"));
  if (!origin.digest.empty() && !origin.source_digest.empty())
    config->codes_origin = std::move(origin);
  return absl::OkStatus();
}

// What `phalanx quantize` writes (model_config.h).
absl::Status ReadOwnCodes(const JsonFields& fields, ModelConfig* config) {
  const Json* version = fields.Find("version");
  if (version == nullptr || *version != kQuantiserVersion)
    return absl::UnimplementedError(absl::StrCat(
        fields.path(), "version is ",
        version == nullptr ? "absent" : RenderJson(*version), "; must be ",
        kQuantiserVersion, ": quantise the model again"));
  const Json* weights = fields.Find("weights");
  for (const WeightFormat format : {WeightFormat::kInt8, WeightFormat::kInt4}) {
    if (weights == nullptr || !IsWord(*weights, WeightFormatName(format)))
      continue;
    config->stored_weights = format;
    return ReadCodesOrigin(fields, config);
  }
  return BadField(absl::StrCat(fields.path(), "weights"),
                  weights == nullptr ? Json() : *weights,
                  "must be \"int8\" or \"int4\"");
}

// Of the ways to store weights in fewer bits, FP8 in blocks is read.
absl::Status ReadBlockFp8(const JsonFields& fields) {
  const struct {
    absl::string_view key;
    absl::string_view word;
  } words[] = {{"fmt", "e4m3"}, {"activation_scheme", "dynamic"}};
  for (const auto& [key, word] : words) {
    const Json* value = fields.Find(key);
    if (value != nullptr && !IsWord(*value, word))
      return RefuseQuantization(absl::StrCat(fields.path(), key), value,
                                absl::StrCat("must be \"", word, "\""));
  }
  const Json* block = fields.Find("weight_block_size");
  if (block == nullptr || *block != Json::array({kFp8Block, kFp8Block}))
    return RefuseQuantization(
        absl::StrCat(fields.path(), "weight_block_size"), block,
        absl::StrCat("must be [", kFp8Block, ",", kFp8Block, "]"));
  return absl::OkStatus();
}

// Whether a weight is FP8 is then asked of the files, tensor by tensor: lists
// of what was not converted differ from what was.
absl::Status ReadQuantization(const Json& root, const Json& text,
                              ModelConfig* config) {
  std::vector<const Json*> places = {&root};
  if (&text != &root) places.push_back(&text);
  for (const Json* place : places) {
    for (const char* key : {"quantization_config", "compression_config"}) {
      const Json* found = JsonFields(*place, "").Find(key);
      if (found == nullptr || found->empty()) continue;
      if (!found->is_object())
        return BadField(key, *found, "must be an object");
      const JsonFields fields(*found, absl::StrCat(key, "."));
      const Json* method = fields.Find("quant_method");
      const bool own = method != nullptr && IsWord(*method, kOwnQuantMethod);
      if (config->stored_weights != WeightFormat::kBf16 ||
          (own && config->block_fp8))
        return BadField(key, *found,
                        "must not be there: codes of `phalanx quantize` "
                        "have no other format beside them");
      if (own) {
        RETURN_IF_ERROR(ReadOwnCodes(fields, config));
        continue;
      }
      if (method == nullptr || !IsWord(*method, "fp8"))
        return RefuseQuantization(absl::StrCat(key, ".quant_method"), method,
                                  "must be \"fp8\"", Algorithm(fields));
      RETURN_IF_ERROR(ReadBlockFp8(fields));
      config->block_fp8 = true;
    }
  }
  return absl::OkStatus();
}

// A string that has one meaning here, or is absent. `later` are values that
// are known and not served yet.
void RequireWord(JsonFields& fields, absl::string_view key,
                 std::vector<absl::string_view> served,
                 std::vector<absl::string_view> later) {
  const Json* value = fields.Find(key);
  if (value == nullptr) return;
  const std::string rule =
      absl::StrCat("must be \"", absl::StrJoin(served, "\" or \""), "\"");
  for (absl::string_view word : served)
    if (IsWord(*value, word)) return;
  for (absl::string_view word : later)
    if (IsWord(*value, word))
      return fields.Refuse(absl::UnimplementedError(
          absl::StrCat(fields.path(), key, " is \"", word,
                       "\", which is not served yet; ", rule)));
  fields.Refuse(key, *value, rule);
}

// What the forward pass takes for granted and a file may say otherwise.
void RequireArchitecture(JsonFields& fields) {
  RequireWord(fields, "hidden_act", {"silu", "swish"}, {});
  RequireWord(fields, "output_gate_type", {"silu", "swish"}, {"sigmoid"});
  bool attention_bias = false;
  fields.Bool("attention_bias", &attention_bias);
  if (attention_bias)
    fields.Refuse("attention_bias", true,
                  "must be false: projections have no bias here");
  bool gate = true;
  fields.Bool("attn_output_gate", &gate);
  if (!gate)
    fields.Refuse("attn_output_gate", false,
                  "must be true: attention is gated here");
  const Json* other_layers = fields.Find("mlp_only_layers");
  if (other_layers != nullptr && !other_layers->empty())
    fields.Refuse("mlp_only_layers", *other_layers,
                  "must be empty: all layers are of one kind here");
  int64_t step = 1;
  fields.Int("decoder_sparse_step", 1, 1, &step, JsonFields::kOptional);
}

void ReadSizes(JsonFields& fields, ModelConfig* config) {
  ModelConfig& c = *config;
  fields.Int("hidden_size", 2, kMaxWidth, &c.hidden_size);
  fields.Int("vocab_size", 1, kMaxVocab, &c.vocab_size);
  fields.Int("max_position_embeddings", 1, kMaxPositions,
             &c.max_position_embeddings);
  double eps = 1e-6;
  fields.Number("rms_norm_eps", {kMinEps, 1}, &eps, JsonFields::kOptional);
  c.rms_norm_eps = static_cast<float>(eps);

  fields.Int("num_attention_heads", 1, kMaxHeads, &c.num_attention_heads);
  fields.Int("num_key_value_heads", 1, kMaxHeads, &c.num_key_value_heads);
  fields.Int("head_dim", 2, kMaxHeadDim, &c.head_dim);

  fields.Int("linear_num_key_heads", 1, kMaxHeads, &c.linear_num_key_heads);
  fields.Int("linear_num_value_heads", 1, kMaxHeads, &c.linear_num_value_heads);
  fields.Int("linear_key_head_dim", 1, kMaxHeadDim, &c.linear_key_head_dim);
  fields.Int("linear_value_head_dim", 1, kMaxHeadDim, &c.linear_value_head_dim);
  fields.Int("linear_conv_kernel_dim", 2, kMaxConvWidth,
             &c.linear_conv_kernel_dim);
}

void ReadExperts(JsonFields& fields, ModelConfig* config) {
  ModelConfig& c = *config;
  fields.Int("num_experts", 1, kMaxExperts, &c.num_experts);
  fields.Int("num_experts_per_tok", 1, kMaxExperts, &c.num_experts_per_tok);
  fields.Int("moe_intermediate_size", 1, kMaxWidth, &c.moe_intermediate_size);
  fields.Int("shared_expert_intermediate_size", 1, kMaxWidth,
             &c.shared_expert_intermediate_size);
  fields.Bool("norm_topk_prob", &c.norm_topk_prob);
}

// A dense model has one width, and no experts whose tensors would then be
// missing.
void ReadDenseMlp(JsonFields& fields, ModelConfig* config) {
  fields.Int("intermediate_size", 1, kMaxWidth, &config->intermediate_size);
  for (const char* key :
       {"num_experts", "num_experts_per_tok", "moe_intermediate_size",
        "shared_expert_intermediate_size"}) {
    const Json* value = fields.Find(key);
    if (value != nullptr && *value != 0)
      fields.Refuse(
          key, *value,
          absl::StrCat("must be absent: model_type \"", config->model_type,
                       "\" is a dense model, without experts"));
  }
}

// layer_types wins over full_attention_interval where they disagree.
void ReadLayers(JsonFields& fields, ModelConfig* config) {
  int64_t layers = 0;
  int64_t interval = 4;
  fields.Int("num_hidden_layers", 1, kMaxLayers, &layers);
  fields.Int("full_attention_interval", 1, kMaxLayers, &interval,
             JsonFields::kOptional);
  if (!fields.status().ok()) return;
  for (int64_t i = 0; i < layers; ++i)
    config->layer_types.push_back((i + 1) % interval == 0
                                      ? LayerKind::kFullAttention
                                      : LayerKind::kLinearAttention);
  const Json* types = fields.Find("layer_types");
  if (types == nullptr) return;
  if (!types->is_array() || static_cast<int64_t>(types->size()) != layers)
    return fields.Refuse(
        "layer_types", *types,
        absl::StrCat("must list num_hidden_layers=", layers, " kinds"));
  bool disagree = false;
  for (int64_t i = 0; i < layers; ++i) {
    const Json& type = (*types)[static_cast<size_t>(i)];
    LayerKind kind = LayerKind::kFullAttention;
    if (IsWord(type, "linear_attention"))
      kind = LayerKind::kLinearAttention;
    else if (!IsWord(type, "full_attention") && !IsWord(type, "attention"))
      return fields.Refuse(
          absl::StrCat("layer_types[", i, "]"), type,
          "must be \"linear_attention\" or \"full_attention\"");
    disagree |= kind != config->layer_types[static_cast<size_t>(i)];
    config->layer_types[static_cast<size_t>(i)] = kind;
  }
  if (disagree && fields.Find("full_attention_interval") != nullptr)
    LogWarning("checkpoint", "layer_types_win",
               {{"full_attention_interval", interval}});
}

// The object of rotary parameters under its new or its old spelling.
const Json* FindRope(JsonFields& fields) {
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const Json* found = fields.Find(key);
    if (found == nullptr) continue;
    if (found->is_object()) return found;
    fields.Refuse(key, *found, "must be an object");
  }
  return nullptr;
}

// How many frequencies follow time, height and width: text moves along all
// three alike, so only the sum is of consequence.
void CheckSections(JsonFields& rope, int64_t rotary_dim) {
  const Json* sections = rope.Find("mrope_section");
  if (sections == nullptr) return;
  int64_t sum = 0;
  bool whole = sections->is_array() && sections->size() == 3;
  for (size_t i = 0; whole && i < 3; ++i) {
    whole = (*sections)[i].is_number_unsigned() &&
            (*sections)[i].get<uint64_t>() <= kMaxHeadDim;
    if (whole) sum += (*sections)[i].get<int64_t>();
  }
  if (!whole || sum != rotary_dim / 2)
    rope.Refuse(
        "mrope_section", *sections,
        absl::StrCat("must be three numbers that add up to ", rotary_dim / 2,
                     ", half of the rotary dimensions"));
}

void ReadRope(JsonFields& fields, ModelConfig* config) {
  static const Json kNone = Json::object();
  const Json* found = FindRope(fields);
  JsonFields rope(found == nullptr ? kNone : *found,
                  absl::StrCat(fields.path(), "rope_parameters."));
  for (const char* key : {"rope_type", "type"})
    RequireWord(rope, key, {"default"}, {"yarn"});
  double partial = 0.25;
  JsonFields& theta_at = rope.Find("rope_theta") != nullptr ? rope : fields;
  theta_at.Number("rope_theta", {kMinTheta, kMaxTheta}, &config->rope_theta);
  JsonFields& partial_at =
      rope.Find("partial_rotary_factor") != nullptr ? rope : fields;
  partial_at.Number("partial_rotary_factor", {0, 1, true}, &partial,
                    JsonFields::kOptional);
  fields.Refuse(rope.status());
  config->rotary_dim =
      static_cast<int64_t>(static_cast<double>(config->head_dim) * partial);
  if (fields.status().ok() &&
      (config->rotary_dim < 2 || config->rotary_dim % 2 != 0))
    fields.Refuse("partial_rotary_factor", partial,
                  absl::StrCat("head_dim=", config->head_dim, " times it is ",
                               config->rotary_dim,
                               ", which must be even and at least "
                               "2"));
  CheckSections(rope, config->rotary_dim);
  fields.Refuse(rope.status());
}

absl::Status RequireMultiple(absl::string_view name, int64_t value,
                             absl::string_view unit_name, int64_t unit) {
  if (value % unit == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      name, " is ", value, "; must be a multiple of ", unit_name, unit));
}

// What two or more fields must be to each other.
absl::Status CheckRelations(const ModelConfig& c) {
  RETURN_IF_ERROR(RequireMultiple("hidden_size", c.hidden_size, "", 2));
  RETURN_IF_ERROR(
      RequireMultiple("num_attention_heads", c.num_attention_heads,
                      "num_key_value_heads=", c.num_key_value_heads));
  RETURN_IF_ERROR(
      RequireMultiple("linear_num_value_heads", c.linear_num_value_heads,
                      "linear_num_key_heads=", c.linear_num_key_heads));
  if (c.num_experts_per_tok > c.num_experts)
    return absl::InvalidArgumentError(
        absl::StrCat("num_experts_per_tok is ", c.num_experts_per_tok,
                     "; must be 1..num_experts=", c.num_experts));
  const struct {
    absl::string_view name;
    int64_t width;
  } contractions[] = {
      {"num_attention_heads * head_dim", c.num_attention_heads * c.head_dim},
      {"linear_num_value_heads * linear_value_head_dim",
       c.linear_num_value_heads * c.linear_value_head_dim},
      {"moe_intermediate_size", c.moe_intermediate_size},
      {"shared_expert_intermediate_size", c.shared_expert_intermediate_size},
      {"intermediate_size", c.intermediate_size},
  };
  for (const auto& contraction : contractions)
    RETURN_IF_ERROR(RequireMultiple(contraction.name, contraction.width, "",
                                    kContractionUnit));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelConfig> ParseModelConfig(absl::string_view json) {
  ASSIGN_OR_RETURN(const Json root, ParseJsonObject(json));
  ModelConfig config;
  JsonFields root_fields(root, "");
  if (root_fields.Find("model_type") == nullptr)
    return absl::InvalidArgumentError(
        absl::StrCat("model_type is absent; ", ModelTypeRule()));
  root_fields.String("model_type", &config.model_type);
  RETURN_IF_ERROR(root_fields.status());
  ASSIGN_OR_RETURN(const ModelType type, ReadModelType(config.model_type));
  config.dialect = type.dialect;

  const Json* text = &root;
  std::string path;
  if (config.dialect == Dialect::kNested) {
    text = root_fields.Find("text_config");
    path = "text_config.";
    if (text == nullptr || !text->is_object())
      return BadField("text_config", text == nullptr ? Json() : *text,
                      absl::StrCat("must be an object where model_type is \"",
                                   type.name, "\""));
  }
  RETURN_IF_ERROR(ReadQuantization(root, *text, &config));

  JsonFields fields(*text, path);
  if (config.dialect == Dialect::kNested)
    RequireWord(fields, "model_type", {type.text}, {});
  RequireArchitecture(fields);
  ReadSizes(fields, &config);
  if (type.dense)
    ReadDenseMlp(fields, &config);
  else
    ReadExperts(fields, &config);
  ReadLayers(fields, &config);
  ReadRope(fields, &config);
  JsonFields& tie_at =
      root_fields.Find("tie_word_embeddings") != nullptr ? root_fields : fields;
  tie_at.Bool("tie_word_embeddings", &config.tie_word_embeddings);
  RETURN_IF_ERROR(fields.status());
  RETURN_IF_ERROR(root_fields.status());
  RETURN_IF_ERROR(CheckRelations(config));
  return config;
}

absl::Status CheckHeldFormat(const ModelConfig& config, WeightFormat held) {
  if (config.stored_weights == WeightFormat::kBf16 ||
      config.stored_weights == held)
    return absl::OkStatus();
  const char* stored = WeightFormatName(config.stored_weights);
  return absl::InvalidArgumentError(absl::StrCat(
      "--weights is ", WeightFormatName(held), "; this model is stored in ",
      stored, " and runs in that alone: leave it unset, or serve the model it ",
      "was made from"));
}

absl::StatusOr<WeightFormat> HeldFormatOf(const ModelConfig& config,
                                          absl::string_view weights_flag) {
  if (weights_flag == "auto") return config.stored_weights;
  const std::optional<WeightFormat> held =
      WeightFormatOf({weights_flag.data(), weights_flag.size()});
  if (!held.has_value())
    return BadField("--weights", std::string(weights_flag),
                    "must be auto, bf16, int8 or int4");
  RETURN_IF_ERROR(CheckHeldFormat(config, *held));
  return *held;
}

}  // namespace phalanx
