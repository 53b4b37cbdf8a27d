#include "worker/checkpoint/tensor_names.h"

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/check.h"
#include "worker/checkpoint/fp8.h"

namespace phalanx {
namespace {

using enum TensorRole;

struct RoleName {
  TensorRole role;
  absl::string_view name;
};

// Longest first: "model." begins the first as well.
constexpr absl::string_view kLanguagePrefixes[] = {"model.language_model.",
                                                   "language_model.", "model."};

constexpr RoleName kGlobalNames[] = {
    {kEmbed, "embed_tokens.weight"},
    {kFinalNorm, "norm.weight"},
};

constexpr RoleName kMtpNames[] = {
    {kFinalNorm, "norm.weight"},
    {kMtpFc, "fc.weight"},
    {kMtpNormHidden, "pre_fc_norm_hidden.weight"},
    {kMtpNormEmbedding, "pre_fc_norm_embedding.weight"},
};

constexpr RoleName kLayerNames[] = {
    {kInputNorm, "input_layernorm.weight"},
    {kPostAttentionNorm, "post_attention_layernorm.weight"},
    {kQProj, "self_attn.q_proj.weight"},
    {kKProj, "self_attn.k_proj.weight"},
    {kVProj, "self_attn.v_proj.weight"},
    {kOProj, "self_attn.o_proj.weight"},
    {kQNorm, "self_attn.q_norm.weight"},
    {kKNorm, "self_attn.k_norm.weight"},
    {kInProjQkv, "linear_attn.in_proj_qkv.weight"},
    {kInProjZ, "linear_attn.in_proj_z.weight"},
    {kInProjB, "linear_attn.in_proj_b.weight"},
    {kInProjA, "linear_attn.in_proj_a.weight"},
    {kInProjQkvz, "linear_attn.in_proj_qkvz.weight"},
    {kInProjBa, "linear_attn.in_proj_ba.weight"},
    {kConv, "linear_attn.conv1d.weight"},
    {kALog, "linear_attn.A_log"},
    {kDtBias, "linear_attn.dt_bias"},
    {kGdnNorm, "linear_attn.norm.weight"},
    {kOutProj, "linear_attn.out_proj.weight"},
    {kRouter, "mlp.gate.weight"},
    {kExpertsGateUp, "mlp.experts.gate_up_proj"},
    {kExpertsDown, "mlp.experts.down_proj"},
    {kSharedGateProj, "mlp.shared_expert.gate_proj.weight"},
    {kSharedUpProj, "mlp.shared_expert.up_proj.weight"},
    {kSharedDownProj, "mlp.shared_expert.down_proj.weight"},
    {kSharedExpertGate, "mlp.shared_expert_gate.weight"},
    {kMlpGateProj, "mlp.gate_proj.weight"},
    {kMlpUpProj, "mlp.up_proj.weight"},
    {kMlpDownProj, "mlp.down_proj.weight"},
};

constexpr RoleName kExpertNames[] = {
    {kExpertGate, "gate_proj.weight"},
    {kExpertUp, "up_proj.weight"},
    {kExpertDown, "down_proj.weight"},
};

constexpr absl::string_view kLmHeadName = "lm_head.weight";
constexpr absl::string_view kWeightSuffix = ".weight";
constexpr absl::string_view kGroupScalesSuffix = ".scales";
constexpr absl::string_view kLayers = "layers.";
constexpr absl::string_view kExperts = "mlp.experts.";

template <size_t N>
std::optional<TensorRole> RoleOf(const RoleName (&names)[N],
                                 absl::string_view name) {
  for (const RoleName& entry : names)
    if (entry.name == name) return entry.role;
  return std::nullopt;
}

template <size_t N>
absl::string_view NameOf(const RoleName (&names)[N], TensorRole role) {
  for (const RoleName& entry : names)
    if (entry.role == role) return entry.name;
  return "";
}

// Takes "<number>." off the front, written the one way it is written: no sign,
// no leading zero.
bool ConsumeIndex(absl::string_view* text, int* index) {
  constexpr size_t kMaxDigits = 6;
  const size_t dot = text->find('.');
  if (dot == absl::string_view::npos || dot == 0 || dot > kMaxDigits)
    return false;
  const absl::string_view digits = text->substr(0, dot);
  for (char c : digits)
    if (c < '0' || c > '9') return false;
  if (digits.size() > 1 && digits[0] == '0') return false;
  text->remove_prefix(dot + 1);
  return absl::SimpleAtoi(digits, index);
}

// As RoleOf, where the name is that of scales without what tells them: of
// groups, whose weight adds ".weight" or, if it is fused experts, nothing.
template <size_t N>
std::optional<TensorRole> RoleOfScales(const RoleName (&names)[N],
                                       absl::string_view name) {
  for (const RoleName& entry : names) {
    absl::string_view stem = entry.name;
    absl::ConsumeSuffix(&stem, kWeightSuffix);
    if (stem == name) return entry.role;
  }
  return std::nullopt;
}

std::optional<TensorId> ParseLayerName(absl::string_view name, bool mtp) {
  TensorId id;
  id.mtp = mtp;
  if (absl::ConsumeSuffix(&name, kScaleSuffix))
    id.scale = ScaleKind::kBlocks;
  else if (absl::ConsumeSuffix(&name, kGroupScalesSuffix))
    id.scale = ScaleKind::kGroups;
  const auto role_of = [&id](const auto& names, absl::string_view rest) {
    return id.scale == ScaleKind::kGroups ? RoleOfScales(names, rest)
                                          : RoleOf(names, rest);
  };
  if (!ConsumeIndex(&name, &id.layer)) return std::nullopt;
  std::optional<TensorRole> role = role_of(kLayerNames, name);
  if (!role.has_value() && absl::ConsumePrefix(&name, kExperts) &&
      ConsumeIndex(&name, &id.expert))
    role = role_of(kExpertNames, name);
  if (!role.has_value()) return std::nullopt;
  id.role = *role;
  return id;
}

}  // namespace

std::optional<TensorId> ParseTensorName(absl::string_view name) {
  if (name == kLmHeadName) return TensorId{.role = kLmHead};
  if (name == GroupScalesName(kLmHeadName))
    return TensorId{.role = kLmHead, .scale = ScaleKind::kGroups};
  const bool mtp = absl::ConsumePrefix(&name, "mtp.");
  if (!mtp) {
    const absl::string_view prefix = LanguagePrefix(name);
    if (prefix.empty()) return std::nullopt;
    name.remove_prefix(prefix.size());
  }
  if (absl::ConsumePrefix(&name, kLayers)) return ParseLayerName(name, mtp);
  const std::optional<TensorRole> role =
      mtp ? RoleOf(kMtpNames, name) : RoleOf(kGlobalNames, name);
  if (!role.has_value()) return std::nullopt;
  return TensorId{.mtp = mtp, .role = *role};
}

bool IsSkippedTensor(absl::string_view name) {
  for (absl::string_view suffix :
       {".k_scale", ".v_scale", ".q_scale", ".prob_scale"})
    if (absl::EndsWith(name, suffix)) return true;
  name.remove_prefix(LanguagePrefix(name).size());
  return absl::StartsWith(name, "mtp.") || absl::StartsWith(name, "visual.");
}

namespace {

std::string WeightName(const TensorId& id, absl::string_view prefix) {
  if (id.role == kLmHead) return std::string(kLmHeadName);
  if (id.layer < 0) return absl::StrCat(prefix, NameOf(kGlobalNames, id.role));
  const std::string layer = absl::StrCat(prefix, kLayers, id.layer, ".");
  if (id.expert < 0) return absl::StrCat(layer, NameOf(kLayerNames, id.role));
  return absl::StrCat(layer, kExperts, id.expert, ".",
                      NameOf(kExpertNames, id.role));
}

}  // namespace

std::string TensorName(const TensorId& id, absl::string_view prefix) {
  CHECK(!id.mtp);
  const std::string weight = WeightName(id, prefix);
  switch (id.scale) {
    case ScaleKind::kNone:
      return weight;
    case ScaleKind::kBlocks:
      return absl::StrCat(weight, kScaleSuffix);
    case ScaleKind::kGroups:
      return GroupScalesName(weight);
  }
  return weight;
}

std::string GroupScalesName(absl::string_view name) {
  absl::ConsumeSuffix(&name, kWeightSuffix);
  return absl::StrCat(name, kGroupScalesSuffix);
}

absl::string_view LanguagePrefix(absl::string_view name) {
  for (absl::string_view prefix : kLanguagePrefixes)
    if (absl::StartsWith(name, prefix)) return prefix;
  return "";
}

}  // namespace phalanx
