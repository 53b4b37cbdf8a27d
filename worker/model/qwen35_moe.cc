#include "worker/model/qwen35_moe.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/check.h"
#include "common/status.h"

namespace phalanx {
namespace {

AttentionShape AttentionShapeOf(const ModelConfig& config,
                                const LocalShape& local) {
  return {.Nq = local.query_heads,
          .Nk = local.kv_heads,
          .D = config.head_dim,
          .H = config.hidden_size,
          .eps = config.rms_norm_eps,
          .slices = local.slices};
}

GdnShape GdnShapeOf(const ModelConfig& config, const LocalShape& local) {
  return {.Nk = local.gdn_key_heads,
          .Nv = local.gdn_value_heads,
          .Dk = config.linear_key_head_dim,
          .Dv = config.linear_value_head_dim,
          .eps = config.rms_norm_eps,
          .slices = local.slices};
}

MoeShape MoeShapeOf(const ModelConfig& config, const LocalShape& local) {
  return {.E = config.num_experts,
          .K = config.num_experts_per_tok,
          .I = local.expert_width,
          .Is = local.shared_width,
          .renormalise = config.norm_topk_prob,
          .slices = local.moe_slices,
          .whole = local.moe_parts < local.tp_size};
}

MlpShape MlpShapeOf(const LocalShape& local) {
  return {.I = local.mlp_width, .slices = local.slices};
}

int64_t CountLayers(const ModelConfig& config, LayerKind kind) {
  return std::count(config.layer_types.begin(), config.layer_types.end(), kind);
}

// The deepest nesting of frames in Forward.
int64_t ScratchBytes(const ModelConfig& config, const LocalShape& local,
                     const StepLimits& limits, DType act) {
  const int64_t T = limits.tokens;
  const int64_t H = config.hidden_size;
  const int64_t block = std::max(
      {GatedAttention::ScratchBytes(AttentionShapeOf(config, local), T, act),
       GatedDeltaNet::ScratchBytes(GdnShapeOf(config, local), T, act),
       config.has_experts()
           ? Moe::ScratchBytes(MoeShapeOf(config, local), T, act)
           : Mlp::ScratchBytes(MlpShapeOf(local), T, act)});
  const int64_t layer = DecoderLayer::ScratchBytes(H, T, act) + block;
  const int64_t embed =
      Scratch::Bytes(T * H, act) + Scratch::Bytes(local.tp_size * T * H, act);
  const int64_t head =
      2 * Scratch::Bytes(limits.logit_rows * H, act) +
      Scratch::Bytes(limits.logit_rows * local.vocab_rows, DType::kF32);
  return Scratch::Bytes(T * H, act) + std::max({layer, embed, head});
}

int64_t LogitsBytes(const LocalShape& local, const StepLimits& limits) {
  return local.tp_size * limits.logit_rows * local.vocab_rows *
         ElementBytes(DType::kF32);
}

}  // namespace

int64_t Qwen35Moe::WorkspaceBytes(const ModelConfig& config,
                                  const LocalShape& local,
                                  const StepLimits& limits, DType act) {
  return ScratchBytes(config, local, limits, act) + LogitsBytes(local, limits);
}

absl::StatusOr<std::unique_ptr<Qwen35Moe>> Qwen35Moe::Create(
    Backend& backend, const ModelConfig& config, const LocalShape& local,
    const Weights& weights, ExpertSource& experts, const KvCache& kv_cache,
    const StateCache& state_cache, const StepLimits& limits) {
  ASSIGN_OR_RETURN(
      std::unique_ptr<Scratch> scratch,
      Scratch::Create(backend, ScratchBytes(config, local, limits,
                                            backend.activation_dtype())));
  ASSIGN_OR_RETURN(
      Buffer logits,
      backend.Allocate(LogitsBytes(local, limits),
                       MemoryComponent::kActivations, "the logits of a step"));
  std::unique_ptr<Qwen35Moe> model(new Qwen35Moe(backend.ops(), config, local,
                                                 weights, std::move(scratch),
                                                 std::move(logits)));
  model->AddLayers(config, local, experts, kv_cache, state_cache);
  return model;
}

Qwen35Moe::Qwen35Moe(Ops& ops, const ModelConfig& config,
                     const LocalShape& local, const Weights& weights,
                     std::unique_ptr<Scratch> scratch, Buffer logits)
    : ops_(ops),
      w_(weights),
      local_(local),
      hidden_size_(config.hidden_size),
      eps_(config.rms_norm_eps),
      scratch_(std::move(scratch)),
      logits_(std::move(logits)) {}

FeedForward Qwen35Moe::MakeFeedForward(const ModelConfig& config,
                                       const LocalShape& local,
                                       ExpertSource& experts,
                                       const LayerWeights& layer) {
  if (const auto* mlp = std::get_if<MlpWeights>(&layer.feed_forward))
    return Mlp(ops_, *scratch_, *mlp, MlpShapeOf(local));
  return Moe(ops_, *scratch_, experts, std::get<MoeWeights>(layer.feed_forward),
             MoeShapeOf(config, local), static_cast<int>(layers_.size()));
}

void Qwen35Moe::AddLayers(const ModelConfig& config, const LocalShape& local,
                          ExpertSource& experts, const KvCache& kv_cache,
                          const StateCache& state_cache) {
  int64_t attention_layer = 0;
  int64_t gdn_layer = 0;
  for (const LayerWeights& layer : w_.layers) {
    FeedForward feed_forward = MakeFeedForward(config, local, experts, layer);
    if (const auto* attention = std::get_if<AttentionWeights>(&layer.mixer)) {
      layers_.emplace_back(
          ops_, *scratch_, layer, eps_,
          GatedAttention(ops_, *scratch_, kv_cache, *attention, w_.inv_freq,
                         AttentionShapeOf(config, local), attention_layer++),
          std::move(feed_forward));
    } else {
      layers_.emplace_back(
          ops_, *scratch_, layer, eps_,
          GatedDeltaNet(ops_, *scratch_, state_cache,
                        std::get<GdnWeights>(layer.mixer),
                        GdnShapeOf(config, local), gdn_layer++),
          std::move(feed_forward));
    }
  }
}

Tensor Qwen35Moe::Forward(const Step& step, Collective& comm, Probe* probe) {
  CHECK(comm.size() == local_.tp_size);
  const int64_t T = step.tokens();
  const int64_t R = step.logit_rows.dims[0];

  Scratch::Frame frame(*scratch_);
  Tensor h = frame.Act(T, hidden_size_);
  Embed(step, comm, h);
  if (probe != nullptr) probe->See("embed", h);

  for (size_t i = 0; i < layers_.size(); ++i) {
    layers_[i].Forward(step, comm, h);
    if (probe != nullptr) probe->See("layers." + std::to_string(i), h);
  }

  Tensor last = frame.Act(R, hidden_size_);
  Tensor normed = frame.Act(R, hidden_size_);
  Tensor mine = frame.F32(R, local_.vocab_rows);
  ops_.GatherRows(h, step.logit_rows, last);
  ops_.RmsNorm(last, w_.norm, eps_, normed);
  if (probe != nullptr) probe->See("norm", normed);
  ops_.MatMul(normed, w_.lm_head, mine);

  Tensor all = MakeTensor(logits_.data(), DType::kF32, local_.tp_size, R,
                          local_.vocab_rows);
  CHECK(all.elements() * ElementBytes(DType::kF32) <= logits_.bytes());
  if (R > 0) comm.AllGather(mine, all);
  return all;
}

// A token's row is copied from the rank that owns it, never summed.
void Qwen35Moe::Embed(const Step& step, Collective& comm, Tensor h) {
  if (local_.tp_size == 1) {
    ops_.Embed(step.ids, w_.embed, /*first_id=*/0, h);
    return;
  }
  Scratch::Frame frame(*scratch_);
  Tensor mine = frame.Act(h.dims[0], hidden_size_);
  Tensor all = frame.Act(local_.tp_size, h.dims[0], hidden_size_);
  ops_.Embed(step.ids, w_.embed, local_.first_vocab, mine);
  comm.AllGather(mine, all);
  ops_.SelectOwner(step.ids, local_.vocab_rows, all, h);
}

KvCacheShape Qwen35Moe::KvShape(const ModelConfig& config,
                                const LocalShape& local) {
  return {.layers = CountLayers(config, LayerKind::kFullAttention),
          .kv_heads = local.kv_heads,
          .head_dim = config.head_dim,
          .blocks = 0};
}

StateCacheShape Qwen35Moe::StateShape(const ModelConfig& config,
                                      const LocalShape& local) {
  return {.layers = CountLayers(config, LayerKind::kLinearAttention),
          .value_heads = local.gdn_value_heads,
          .value_dim = config.linear_value_head_dim,
          .key_dim = config.linear_key_head_dim,
          .conv_channels = local.conv_channels,
          .conv_width = config.linear_conv_kernel_dim,
          .slots = 0};
}

}  // namespace phalanx
