#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "worker/checkpoint/expert_shapes.h"
#include "worker/checkpoint/weight_loader.h"

namespace phalanx {

using enum TensorRole;

absl::Status WeightLoader::LoadAttention(int layer, AttentionWeights* out) {
  const int64_t head = config_.head_dim;
  const std::string where = absl::StrCat("layers.", layer, ".self_attn.");
  // The file has query and gate head by head; the model reads all queries, then
  // all gates: two views of the same bytes.
  MatrixPiece query = Piece(kQProj, layer);
  MatrixPiece gate = query;
  const Range rows = query.ranges[0];
  query.ranges = GroupParts(rows, 2 * head, {0, head});
  gate.ranges = GroupParts(rows, 2 * head, {head, 2 * head});
  const MatrixPiece pieces[] = {std::move(query), std::move(gate),
                                Piece(kKProj, layer), Piece(kVProj, layer)};
  RETURN_IF_ERROR(
      LoadPacked(absl::StrCat(where, "qgkv"),
                 {.role = kQProj,
                  .rows = 2 * (shape_.query_heads + shape_.kv_heads) * head,
                  .cols = config_.hidden_size},
                 pieces, &out->qgkv));
  RETURN_IF_ERROR(LoadPlain(kQNorm, layer, Fold::kOnePlus, &out->q_norm));
  RETURN_IF_ERROR(LoadPlain(kKNorm, layer, Fold::kOnePlus, &out->k_norm));
  const MatrixPiece o = Piece(kOProj, layer);
  return LoadPacked(absl::StrCat(where, "o"),
                    {.role = kOProj,
                     .rows = config_.hidden_size,
                     .cols = shape_.query_heads * head},
                    {&o, 1}, &out->o);
}

WeightLoader::GdnPieces WeightLoader::InProjPieces(int layer) {
  if (config_.dialect != Dialect::kNext)
    return {.qkvz = {Piece(kInProjQkv, layer), Piece(kInProjZ, layer)},
            .ba = {Piece(kInProjB, layer), Piece(kInProjA, layer)}};
  const int64_t ratio =
      config_.linear_num_value_heads / config_.linear_num_key_heads;
  const int64_t key = config_.linear_key_head_dim;
  const int64_t value = ratio * config_.linear_value_head_dim;
  return {.qkvz = PartsByKeyHead(kInProjQkvz, layer, {key, key, value, value}),
          .ba = PartsByKeyHead(kInProjBa, layer, {ratio, ratio})};
}

// A rank's key heads are one run of rows, so the parts are views of it.
std::vector<MatrixPiece> WeightLoader::PartsByKeyHead(
    TensorRole role, int layer, std::initializer_list<int64_t> sizes) {
  const MatrixPiece whole = Piece(role, layer);
  const Range rows = whole.ranges[0];
  int64_t group = 0;
  for (int64_t size : sizes) group += size;
  std::vector<MatrixPiece> pieces;
  int64_t first = 0;
  for (int64_t size : sizes) {
    pieces.push_back(whole);
    pieces.back().ranges = GroupParts(rows, group, {first, first + size});
    first += size;
  }
  return pieces;
}

absl::Status WeightLoader::LoadGdn(int layer, GdnWeights* out) {
  const int64_t value_rows =
      shape_.gdn_value_heads * config_.linear_value_head_dim;
  const std::string where = absl::StrCat("layers.", layer, ".linear_attn.");
  const GdnPieces pieces = InProjPieces(layer);
  RETURN_IF_ERROR(LoadPacked(absl::StrCat(where, "in_proj"),
                             {.role = kInProjQkvz,
                              .rows = shape_.conv_channels + value_rows,
                              .cols = config_.hidden_size,
                              .component = MemoryComponent::kGdn},
                             pieces.qkvz, &out->in_proj));
  RETURN_IF_ERROR(LoadPacked(absl::StrCat(where, "ba_proj"),
                             {.role = kInProjBa,
                              .rows = 2 * shape_.gdn_value_heads,
                              .cols = config_.hidden_size,
                              .component = MemoryComponent::kGdn},
                             pieces.ba, &out->ba_proj));
  RETURN_IF_ERROR(LoadPlain(kConv, layer, Fold::kNothing, &out->conv));
  RETURN_IF_ERROR(LoadPlain(kALog, layer, Fold::kNothing, &out->a_log));
  RETURN_IF_ERROR(LoadPlain(kDtBias, layer, Fold::kNothing, &out->dt_bias));
  RETURN_IF_ERROR(LoadPlain(kGdnNorm, layer, Fold::kNothing, &out->norm));
  const MatrixPiece out_proj = Piece(kOutProj, layer);
  return LoadPacked(absl::StrCat(where, "out_proj"),
                    {.role = kOutProj,
                     .rows = config_.hidden_size,
                     .cols = value_rows,
                     .component = MemoryComponent::kGdn},
                    {&out_proj, 1}, &out->out_proj);
}

absl::Status WeightLoader::LoadMoe(int layer, MoeWeights* out) {
  const int64_t hidden = config_.hidden_size;
  const std::string where = absl::StrCat("layers.", layer, ".mlp.");
  const MatrixPiece router = Piece(kRouter, layer);
  RETURN_IF_ERROR(LoadPacked(absl::StrCat(where, "router"),
                             {.role = kRouter,
                              .rows = config_.num_experts,
                              .cols = hidden,
                              .component = MemoryComponent::kRouter},
                             {&router, 1}, &out->router));
  if (options_.routed_experts) RETURN_IF_ERROR(LoadExperts(layer, out));
  const MatrixPiece gate_up[] = {Piece(kSharedGateProj, layer),
                                 Piece(kSharedUpProj, layer)};
  RETURN_IF_ERROR(LoadPacked(absl::StrCat(where, "shared_gate_up"),
                             {.role = kSharedGateProj,
                              .rows = 2 * shape_.shared_width,
                              .cols = hidden,
                              .layout = WeightLayout::kGateUp,
                              .component = MemoryComponent::kSharedExpert},
                             gate_up, &out->shared_gate_up));
  const MatrixPiece down = Piece(kSharedDownProj, layer);
  RETURN_IF_ERROR(LoadPacked(absl::StrCat(where, "shared_down"),
                             {.role = kSharedDownProj,
                              .rows = hidden,
                              .cols = shape_.shared_width,
                              .component = MemoryComponent::kSharedExpert},
                             {&down, 1}, &out->shared_down));
  const MatrixPiece gate = Piece(kSharedExpertGate, layer);
  return LoadPacked(absl::StrCat(where, "shared_gate"),
                    {.role = kSharedExpertGate,
                     .rows = 1,
                     .cols = hidden,
                     .component = MemoryComponent::kRouter},
                    {&gate, 1}, &out->shared_gate);
}

absl::Status WeightLoader::LoadExperts(int layer, MoeWeights* out) {
  const int64_t experts = config_.num_experts;
  const ExpertShapes shapes =
      ExpertShapesOf(config_, shape_, options_.format, experts);
  const std::string where = absl::StrCat("layers.", layer, ".mlp.experts.");
  ASSIGN_OR_RETURN(
      out->experts_gate_up,
      backend_.AllocateWeight(shapes.gate_up, MemoryComponent::kRoutedExperts,
                              absl::StrCat(where, "gate_up")));
  ASSIGN_OR_RETURN(
      out->experts_down,
      backend_.AllocateWeight(shapes.down, MemoryComponent::kRoutedExperts,
                              absl::StrCat(where, "down")));
  const int64_t bf16_bytes =
      ExpertShapesOf(config_, shape_, WeightFormat::kBf16, 1).share_bytes();
  for (int e = 0; e < experts; ++e)
    jobs_.Add(bf16_bytes, [this, out, layer, e](LoadJobs::Scratch* scratch) {
      backend_.PackWeight(expert_reader_.GateUp(layer, e, scratch), e,
                          out->experts_gate_up);
      backend_.PackWeight(expert_reader_.Down(layer, e, scratch), e,
                          out->experts_down);
      expert_reader_.Drop(layer, e);
    });
  weights_.expert_bytes += shapes.share_bytes();
  return absl::OkStatus();
}

absl::Status WeightLoader::LoadMlp(int layer, MlpWeights* out) {
  const std::string where = absl::StrCat("layers.", layer, ".mlp.");
  const MatrixPiece gate_up[] = {Piece(kMlpGateProj, layer),
                                 Piece(kMlpUpProj, layer)};
  RETURN_IF_ERROR(LoadPacked(absl::StrCat(where, "gate_up"),
                             {.role = kMlpGateProj,
                              .rows = 2 * shape_.mlp_width,
                              .cols = config_.hidden_size,
                              .layout = WeightLayout::kGateUp,
                              .component = MemoryComponent::kMlp},
                             gate_up, &out->gate_up));
  const MatrixPiece down = Piece(kMlpDownProj, layer);
  return LoadPacked(absl::StrCat(where, "down"),
                    {.role = kMlpDownProj,
                     .rows = config_.hidden_size,
                     .cols = shape_.mlp_width,
                     .component = MemoryComponent::kMlp},
                    {&down, 1}, &out->down);
}

}  // namespace phalanx
