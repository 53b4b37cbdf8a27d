#include "worker/plan/presets.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace phalanx {
namespace {

// Every fourth layer is attention.
void SetLayers(int64_t count, ModelConfig* config) {
  config->layer_types.clear();
  for (int64_t i = 0; i < count; ++i)
    config->layer_types.push_back(i % 4 == 3 ? LayerKind::kFullAttention
                                             : LayerKind::kLinearAttention);
}

ModelConfig Qwen35B() {
  ModelConfig c;
  c.dialect = Dialect::kNested;
  c.model_type = "qwen3_5_moe";
  c.hidden_size = 2048;
  c.vocab_size = 248320;
  c.max_position_embeddings = 262144;
  c.rms_norm_eps = 1e-6f;
  SetLayers(40, &c);
  c.num_attention_heads = 16;
  c.num_key_value_heads = 2;
  c.head_dim = 256;
  c.rotary_dim = 64;
  c.rope_theta = 1e7;
  c.linear_num_key_heads = 16;
  c.linear_num_value_heads = 32;
  c.linear_key_head_dim = 128;
  c.linear_value_head_dim = 128;
  c.linear_conv_kernel_dim = 4;
  c.num_experts = 256;
  c.num_experts_per_tok = 8;
  c.moe_intermediate_size = 512;
  c.shared_expert_intermediate_size = 512;
  return c;
}

// What the larger two differ in from the smallest.
ModelConfig Qwen122B() {
  ModelConfig c = Qwen35B();
  c.hidden_size = 3072;
  SetLayers(48, &c);
  c.num_attention_heads = 32;
  c.linear_num_value_heads = 64;
  c.moe_intermediate_size = 1024;
  c.shared_expert_intermediate_size = 1024;
  return c;
}

ModelConfig Qwen397B() {
  ModelConfig c = Qwen122B();
  c.hidden_size = 4096;
  SetLayers(60, &c);
  c.num_experts = 512;
  c.num_experts_per_tok = 10;
  return c;
}

}  // namespace

absl::StatusOr<ModelConfig> PresetConfig(absl::string_view name) {
  if (name == kPresetNames[0]) return Qwen35B();
  if (name == kPresetNames[1]) return Qwen122B();
  if (name == kPresetNames[2]) return Qwen397B();
  return absl::NotFoundError(absl::StrCat("preset is \"", name.substr(0, 100),
                                          "\"; must be one of ",
                                          absl::StrJoin(kPresetNames, ", ")));
}

}  // namespace phalanx
