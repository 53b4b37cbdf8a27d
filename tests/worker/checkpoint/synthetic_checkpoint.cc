#include "tests/worker/checkpoint/synthetic_checkpoint.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "common/check.h"
#include "worker/checkpoint/model_config.h"
#include "worker/checkpoint/tensor_names.h"
#include "worker/checkpoint/tensor_rules.h"

namespace phalanx {
namespace {

using nlohmann::json;
using enum TensorRole;

constexpr char kPrefix[] = "model.language_model.";

json ConfigOf(const SyntheticModel& model) {
  json config = {{"model_type", "qwen3_5_moe"},
                 {"architectures", {"Qwen3_5MoeForConditionalGeneration"}},
                 {"tie_word_embeddings", false}};
  json& text = config["text_config"];
  text = {{"model_type", "qwen3_5_moe_text"},
          {"vocab_size", model.vocab_size},
          {"hidden_size", 2048},
          {"num_hidden_layers", model.layers},
          {"num_attention_heads", 16},
          {"num_key_value_heads", 2},
          {"head_dim", 256},
          {"attn_output_gate", true},
          {"hidden_act", "silu"},
          {"rms_norm_eps", 1e-6},
          {"linear_num_key_heads", 16},
          {"linear_num_value_heads", 32},
          {"linear_key_head_dim", 128},
          {"linear_value_head_dim", 128},
          {"linear_conv_kernel_dim", 4},
          {"num_experts", model.experts},
          {"num_experts_per_tok", 8},
          {"moe_intermediate_size", 512},
          {"shared_expert_intermediate_size", 512},
          {"full_attention_interval", 4},
          {"max_position_embeddings", 8192},
          {"dtype", "bfloat16"},
          {"eos_token_id", 0},
          {"tie_word_embeddings", false}};
  text["rope_parameters"] = {{"rope_type", "default"},
                             {"rope_theta", 10000.0},
                             {"partial_rotary_factor", 0.25}};
  if (model.fp8)
    config["quantization_config"] = {{"quant_method", "fp8"},
                                     {"fmt", "e4m3"},
                                     {"activation_scheme", "dynamic"},
                                     {"weight_block_size", {128, 128}}};
  return config;
}

struct NamedTensor {
  std::string name;
  const char* dtype;
  std::vector<int64_t> shape;
  int64_t bytes;
};

// In the order of the file.
class TensorList {
 public:
  TensorList(const ModelConfig& config, bool fp8) : config_(config), fp8_(fp8) {
    Add({kEmbed, kFinalNorm, kLmHead}, -1);
    for (int layer = 0; layer < config.num_layers(); ++layer) AddLayer(layer);
  }

  const std::vector<NamedTensor>& tensors() const { return tensors_; }

 private:
  void AddLayer(int layer) {
    Add({kInputNorm, kPostAttentionNorm}, layer);
    if (config_.layer_types[static_cast<size_t>(layer)] ==
        LayerKind::kFullAttention)
      Add({kQProj, kKProj, kVProj, kOProj, kQNorm, kKNorm}, layer);
    else
      Add({kInProjQkv, kInProjZ, kInProjB, kInProjA, kConv, kALog, kDtBias,
           kGdnNorm, kOutProj},
          layer);
    Add({kRouter, kSharedGateProj, kSharedUpProj, kSharedDownProj,
         kSharedExpertGate},
        layer);
    if (!fp8_) Add({kExpertsGateUp, kExpertsDown}, layer);
    for (int e = 0; fp8_ && e < config_.num_experts; ++e)
      Add({kExpertGate, kExpertUp, kExpertDown}, layer, e);
  }

  void Add(std::initializer_list<TensorRole> roles, int layer,
           int expert = -1) {
    for (const TensorRole role : roles) {
      const bool codes = fp8_ && MayBeFp8(role) && role != kRouter &&
                         role != kSharedExpertGate;
      TensorId id{.role = role, .layer = layer, .expert = expert};
      AddOne(id, codes ? "F8_E4M3" : "BF16", ExpectedShape(role, config_),
             codes ? 1 : 2);
      id.scale = ScaleKind::kBlocks;
      if (codes) AddOne(id, "BF16", ScaleShape(role, config_), 2);
    }
  }

  void AddOne(const TensorId& id, const char* dtype, std::vector<int64_t> shape,
              int64_t element_bytes) {
    int64_t bytes = element_bytes;
    for (const int64_t size : shape) bytes *= size;
    tensors_.push_back(
        {TensorName(id, kPrefix), dtype, std::move(shape), bytes});
  }

  const ModelConfig& config_;
  const bool fp8_;
  std::vector<NamedTensor> tensors_;
};

std::string HeaderOf(const std::vector<NamedTensor>& tensors) {
  json header;
  int64_t begin = 0;
  for (const NamedTensor& tensor : tensors) {
    header[tensor.name] = {{"dtype", tensor.dtype},
                           {"shape", tensor.shape},
                           {"data_offsets", {begin, begin + tensor.bytes}}};
    begin += tensor.bytes;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

// Bytes that are read as bf16 between 2^-7 and 2^-5, or as E4M3 below 1.
std::string Pattern(bool codes) {
  constexpr size_t kBytes = 1 << 20;
  std::mt19937 random(7);
  std::string bytes;
  while (bytes.size() < kBytes) {
    const uint32_t bits = random();
    bytes.push_back(static_cast<char>(codes ? bits & 0xb7 : bits & 0xff));
    bytes.push_back(static_cast<char>(codes ? bits >> 8 & 0xb7
                                            : 0x3c | (bits >> 8 & 0x80)));
  }
  return bytes;
}

}  // namespace

void WriteSyntheticCheckpoint(const std::string& folder,
                              const SyntheticModel& model) {
  const std::string config_text = ConfigOf(model).dump(1);
  const auto config = ParseModelConfig(config_text);
  CHECK(config.ok());
  std::ofstream(folder + "/config.json") << config_text;
  const TensorList list(*config, model.fp8);
  std::ofstream out(folder + "/model.safetensors", std::ios::binary);
  const std::string header = HeaderOf(list.tensors());
  const uint64_t header_bytes = header.size();
  out.write(reinterpret_cast<const char*>(&header_bytes), sizeof(header_bytes));
  out << header;
  const std::string numbers = Pattern(false);
  const std::string codes = Pattern(true);
  for (const NamedTensor& tensor : list.tensors()) {
    const std::string& pattern = tensor.dtype[0] == 'F' ? codes : numbers;
    for (int64_t left = tensor.bytes; left > 0;
         left -= static_cast<int64_t>(pattern.size()))
      out.write(pattern.data(),
                std::min(left, static_cast<int64_t>(pattern.size())));
  }
  out.close();
  CHECK(out.good());
}

}  // namespace phalanx
