#include "worker/checkpoint/tensor_names.h"

#include <gtest/gtest.h>

namespace phalanx {
namespace {

TEST(ParseTensorName, ReadsEveryPrefix) {
  for (const char* prefix :
       {"model.language_model.", "language_model.", "model."}) {
    const auto id = ParseTensorName(std::string(prefix) +
                                    "layers.12.self_attn.q_proj.weight");
    ASSERT_TRUE(id.has_value()) << prefix;
    EXPECT_EQ(*id, (TensorId{.role = TensorRole::kQProj, .layer = 12}));
  }
}

TEST(ParseTensorName, ReadsSingleExperts) {
  EXPECT_EQ(
      ParseTensorName("model.layers.3.mlp.experts.255.up_proj.weight"),
      (TensorId{.role = TensorRole::kExpertUp, .layer = 3, .expert = 255}));
}

TEST(ParseTensorName, ReadsTheMultipliersOfAWeight) {
  EXPECT_EQ(
      ParseTensorName("model.layers.3.mlp.experts.7.up_proj.weight_scale_inv"),
      (TensorId{.role = TensorRole::kExpertUp,
                .layer = 3,
                .expert = 7,
                .scale = ScaleKind::kBlocks}));
}

TEST(ParseTensorName, ReadsTheScalesOfGroups) {
  for (const char* name :
       {"model.layers.3.mlp.experts.7.up_proj.scales", "lm_head.scales",
        "model.layers.3.mlp.experts.gate_up_proj.scales",
        "model.layers.0.self_attn.q_proj.scales"}) {
    const auto id = ParseTensorName(name);
    ASSERT_TRUE(id.has_value()) << name;
    EXPECT_EQ(id->scale, ScaleKind::kGroups);
    EXPECT_EQ(TensorName(*id, "model."), name);
  }
}

TEST(ParseTensorName, TellsADenseMlpFromARouter) {
  EXPECT_EQ(ParseTensorName("model.layers.3.mlp.gate_proj.weight"),
            (TensorId{.role = TensorRole::kMlpGateProj, .layer = 3}));
  EXPECT_EQ(ParseTensorName("model.layers.3.mlp.gate.weight"),
            (TensorId{.role = TensorRole::kRouter, .layer = 3}));
}

TEST(ParseTensorName, TellsTheMtpHeadFromTheModel) {
  EXPECT_EQ(
      ParseTensorName("mtp.layers.0.mlp.experts.down_proj"),
      (TensorId{.mtp = true, .role = TensorRole::kExpertsDown, .layer = 0}));
}

TEST(ParseTensorName, KnowsNothingElse) {
  for (const char* name :
       {"", "model.", "layers.0.input_layernorm.weight",
        "model.layers.0.input_layernorm", "model.layers..norm.weight",
        "model.layers.00.input_layernorm.weight",
        "model.layers.-1.input_layernorm.weight",
        "model.layers.99999999999.input_layernorm.weight",
        "model.layers.0.mlp.experts.gate_up_proj.weight",
        "model.layers.0.mlp.experts.0.gate_up_proj",
        "model.layers.0.mlp.gate_up_proj.weight", "model.layers.0.mlp.up_proj",
        "model.layers.0.self_attn.q_proj.weight_scale",
        "model.norm.weight_scale_inv", "lm_head.weight_scale_inv",
        "model.lm_head.weight", "model.layers.0"})
    EXPECT_FALSE(ParseTensorName(name).has_value()) << name;
}

TEST(TensorName, IsTheInverse) {
  for (const char* name : {"model.embed_tokens.weight", "model.norm.weight",
                           "lm_head.weight", "model.layers.7.linear_attn.A_log",
                           "model.layers.7.mlp.experts.gate_up_proj",
                           "model.layers.7.linear_attn.in_proj_qkvz.weight",
                           "model.layers.7.self_attn.o_proj.weight_scale_inv",
                           "model.layers.7.mlp.gate_proj.weight",
                           "model.layers.7.mlp.up_proj.weight",
                           "model.layers.7.mlp.down_proj.weight_scale_inv",
                           "model.layers.7.mlp.experts.0.up_proj."
                           "weight_scale_inv",
                           "model.layers.7.mlp.experts.0.down_proj.weight"})
    EXPECT_EQ(TensorName(*ParseTensorName(name), "model."), name);
}

TEST(IsSkippedTensor, PassesOverHeadTowerAndScales) {
  for (const char* name :
       {"mtp.fc.weight", "model.language_model.mtp.norm.weight",
        "model.visual.patch_embed.proj.weight", "visual.blocks.0.norm1.weight",
        "model.language_model.visual.a", "language_model.visual.a",
        "model.layers.3.self_attn.k_scale", "model.layers.3.self_attn.v_scale",
        "model.layers.3.self_attn.q_scale",
        "model.layers.3.self_attn.prob_scale"})
    EXPECT_TRUE(IsSkippedTensor(name)) << name;
}

TEST(IsSkippedTensor, KeepsTheModel) {
  for (const char* name : {"model.language_model.norm.weight", "lm_head.weight",
                           "visuals.a", "model.layers.0.weight_scale"})
    EXPECT_FALSE(IsSkippedTensor(name)) << name;
}

}  // namespace
}  // namespace phalanx
