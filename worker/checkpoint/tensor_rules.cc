#include "worker/checkpoint/tensor_rules.h"

#include "common/check.h"
#include "common/units.h"
#include "worker/checkpoint/fp8.h"

namespace phalanx {

using enum TensorRole;

namespace {

// Of what follows the mixer.
std::vector<int64_t> FeedForwardShape(TensorRole role, const ModelConfig& c) {
  const int64_t h = c.hidden_size;
  switch (role) {
    case kRouter:
      return {c.num_experts, h};
    case kExpertsGateUp:
      return {c.num_experts, 2 * c.moe_intermediate_size, h};
    case kExpertsDown:
      return {c.num_experts, h, c.moe_intermediate_size};
    case kExpertGate:
    case kExpertUp:
      return {c.moe_intermediate_size, h};
    case kExpertDown:
      return {h, c.moe_intermediate_size};
    case kSharedGateProj:
    case kSharedUpProj:
      return {c.shared_expert_intermediate_size, h};
    case kSharedDownProj:
      return {h, c.shared_expert_intermediate_size};
    case kSharedExpertGate:
      return {1, h};
    case kMlpGateProj:
    case kMlpUpProj:
      return {c.intermediate_size, h};
    case kMlpDownProj:
      return {h, c.intermediate_size};
    default:
      break;
  }
  CHECK(false);  // Every role has a shape.
  return {};
}

}  // namespace

std::vector<int64_t> ExpectedShape(TensorRole role, const ModelConfig& config) {
  const ModelConfig& c = config;
  const int64_t h = c.hidden_size;
  const int64_t d = c.head_dim;
  const int64_t key_rows = c.linear_num_key_heads * c.linear_key_head_dim;
  const int64_t value_rows = c.linear_num_value_heads * c.linear_value_head_dim;
  const int64_t qkv_rows = 2 * key_rows + value_rows;
  switch (role) {
    case kEmbed:
    case kLmHead:
      return {c.vocab_size, h};
    case kFinalNorm:
    case kInputNorm:
    case kPostAttentionNorm:
    case kMtpNormHidden:
    case kMtpNormEmbedding:
      return {h};
    case kQProj:
      return {c.num_attention_heads * 2 * d, h};
    case kKProj:
    case kVProj:
      return {c.num_key_value_heads * d, h};
    case kOProj:
      return {h, c.num_attention_heads * d};
    case kQNorm:
    case kKNorm:
      return {d};
    case kInProjQkv:
      return {qkv_rows, h};
    case kInProjZ:
      return {value_rows, h};
    case kInProjB:
    case kInProjA:
      return {c.linear_num_value_heads, h};
    case kInProjQkvz:
      return {qkv_rows + value_rows, h};
    case kInProjBa:
      return {2 * c.linear_num_value_heads, h};
    case kConv:
      return {qkv_rows, 1, c.linear_conv_kernel_dim};
    case kALog:
    case kDtBias:
      return {c.linear_num_value_heads};
    case kGdnNorm:
      return {c.linear_value_head_dim};
    case kOutProj:
      return {h, value_rows};
    case kMtpFc:
      return {h, 2 * h};
    default:
      return FeedForwardShape(role, c);
  }
}

bool IsAllowedType(TensorRole role, StoredType type) {
  if (type == StoredType::kBf16) return true;
  return type == StoredType::kF32 && (role == kALog || role == kGdnNorm);
}

bool MayBeFp8(TensorRole role) {
  switch (role) {
    case kQProj:
    case kKProj:
    case kVProj:
    case kOProj:
    case kInProjQkv:
    case kInProjZ:
    case kInProjB:
    case kInProjA:
    case kInProjQkvz:
    case kInProjBa:
    case kOutProj:
    case kRouter:
    case kExpertGate:
    case kExpertUp:
    case kExpertDown:
    case kSharedGateProj:
    case kSharedUpProj:
    case kSharedDownProj:
    case kSharedExpertGate:
    case kMlpGateProj:
    case kMlpUpProj:
    case kMlpDownProj:
      return true;
    default:
      return false;
  }
}

bool MayBeQuantised(TensorRole role) {
  switch (role) {
    case kLmHead:
    case kQProj:
    case kKProj:
    case kVProj:
    case kOProj:
    case kInProjQkv:
    case kInProjZ:
    case kInProjQkvz:
    case kOutProj:
    case kExpertsGateUp:
    case kExpertsDown:
    case kExpertGate:
    case kExpertUp:
    case kExpertDown:
    case kSharedGateProj:
    case kSharedUpProj:
    case kSharedDownProj:
    case kMlpGateProj:
    case kMlpUpProj:
    case kMlpDownProj:
      return true;
    default:
      return false;
  }
}

int SlicesOf(TensorRole role, const LocalShape& shape) {
  switch (role) {
    case kOProj:
    case kOutProj:
    case kMlpDownProj:
      return shape.slices;
    case kExpertsDown:
    case kExpertDown:
    case kSharedDownProj:
      return shape.moe_slices;
    default:
      return 1;
  }
}

std::vector<int64_t> ScaleShape(TensorRole role, const ModelConfig& config) {
  CHECK(MayBeFp8(role));
  std::vector<int64_t> shape = ExpectedShape(role, config);
  for (int64_t& size : shape) size = CeilDivide(size, kFp8Block);
  return shape;
}

namespace {

// Of routed experts and the shared one, which may be whole where all else is
// cut.
TensorSlice MoeSliceOf(TensorRole role, const ModelConfig& config,
                       const LocalShape& shape) {
  const int64_t width = config.moe_intermediate_size;
  const int64_t shared_width = config.shared_expert_intermediate_size;
  const auto chunk = [&](int dim, int64_t size) {
    return TensorSlice{
        .dim = dim, .ranges = {ShardTp(size, shape.moe_part, shape.moe_parts)}};
  };
  switch (role) {
    case kExpertsGateUp: {
      const int64_t parts[] = {width, width};
      return {.dim = 1,
              .ranges = ShardTpParts(parts, shape.moe_part, shape.moe_parts)};
    }
    case kExpertsDown:
      return chunk(2, width);
    case kExpertDown:
      return chunk(1, width);
    case kSharedDownProj:
      return chunk(1, shared_width);
    case kSharedGateProj:
    case kSharedUpProj:
      return chunk(0, shared_width);
    default:
      return chunk(0, width);  // kExpertGate, kExpertUp.
  }
}

}  // namespace

TensorSlice SliceOf(TensorRole role, const ModelConfig& config,
                    const LocalShape& shape) {
  const ModelConfig& c = config;
  const int rank = shape.rank;
  const int tp = shape.tp_size;
  const auto rows_by_heads = [&](int64_t heads, int64_t head_size) {
    const HeadPart part{heads, head_size};
    return TensorSlice{.dim = 0,
                       .ranges = ShardTpPartsReplicate({&part, 1}, rank, tp)};
  };
  const auto chunk = [&](int dim, int64_t size) {
    return TensorSlice{.dim = dim, .ranges = {ShardTp(size, rank, tp)}};
  };
  const int64_t key_rows = c.linear_num_key_heads * c.linear_key_head_dim;
  const int64_t value_rows = c.linear_num_value_heads * c.linear_value_head_dim;
  switch (role) {
    case kEmbed:
    case kLmHead: {
      const Range rows = ShardVocab(c.vocab_size, rank, tp);
      return {.dim = 0,
              .ranges = {rows},
              .padding = shape.vocab_rows - rows.size()};
    }
    case kQProj:
      return rows_by_heads(c.num_attention_heads, 2 * c.head_dim);
    case kKProj:
    case kVProj:
      return rows_by_heads(c.num_key_value_heads, c.head_dim);
    case kOProj:
      return chunk(1, c.num_attention_heads * c.head_dim);
    case kInProjQkv:
    case kConv: {
      const int64_t parts[] = {key_rows, key_rows, value_rows};
      return {.dim = 0, .ranges = ShardTpParts(parts, rank, tp)};
    }
    case kInProjZ:
      return chunk(0, value_rows);
    case kInProjQkvz:
      return chunk(0, 2 * (key_rows + value_rows));
    case kInProjBa:
      return chunk(0, 2 * c.linear_num_value_heads);
    case kInProjB:
    case kInProjA:
    case kALog:
    case kDtBias:
      return chunk(0, c.linear_num_value_heads);
    case kOutProj:
      return chunk(1, value_rows);
    case kExpertsGateUp:
    case kExpertsDown:
    case kExpertGate:
    case kExpertUp:
    case kExpertDown:
    case kSharedGateProj:
    case kSharedUpProj:
    case kSharedDownProj:
      return MoeSliceOf(role, config, shape);
    case kMlpGateProj:
    case kMlpUpProj:
      return chunk(0, c.intermediate_size);
    case kMlpDownProj:
      return chunk(1, c.intermediate_size);
    default:
      return {};  // Norms, router, shared gate: replicated.
  }
}

std::optional<TensorSlice> SliceOfName(absl::string_view name,
                                       const ModelConfig& config,
                                       const LocalShape& shape) {
  const std::optional<TensorId> id = ParseTensorName(name);
  if (!id.has_value() || id->scale) return std::nullopt;
  return SliceOf(id->role, config, shape);
}

}  // namespace phalanx
