#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/units.h"
#include "kernels/sequences.h"
#include "worker/checkpoint/model_config.h"
#include "worker/checkpoint/shard.h"

namespace phalanx {
namespace {

// What stands against `tp_size`; empty if nothing does.
std::string Obstacle(const ModelConfig& config, int64_t tp_size) {
  if (tp_size < 1) return absl::StrCat("tp_size is ", tp_size);
  const struct {
    absl::string_view field;
    int64_t value;
  } divided[] = {
      {"num_attention_heads", config.num_attention_heads},
      {"linear_num_key_heads", config.linear_num_key_heads},
      {"linear_num_value_heads", config.linear_num_value_heads},
      {"moe_intermediate_size", config.moe_intermediate_size},
      {"shared_expert_intermediate_size",
       config.shared_expert_intermediate_size},
      {"intermediate_size", config.intermediate_size},
  };
  for (const auto& [field, value] : divided)
    if (value % tp_size != 0)
      return absl::StrCat(field, "=", value,
                          " is not divisible by tp_size=", tp_size);
  const int64_t kv_heads = config.num_key_value_heads;
  if (kv_heads >= tp_size && kv_heads % tp_size != 0)
    return absl::StrCat("num_key_value_heads=", kv_heads,
                        " is not divisible by tp_size=", tp_size);
  if (kv_heads < tp_size && tp_size % kv_heads != 0)
    return absl::StrCat("tp_size=", tp_size,
                        " is not a multiple of num_key_value_heads=", kv_heads);
  if (kContractionSlices % tp_size != 0)
    return absl::StrCat("tp_size=", tp_size, " does not divide the ",
                        kContractionSlices, " slices of a contraction");
  return "";
}

std::vector<int> PossibleSizes(const ModelConfig& config) {
  std::vector<int> sizes;
  for (int size = 1; size <= kContractionSlices; ++size)
    if (Obstacle(config, size).empty()) sizes.push_back(size);
  return sizes;
}

}  // namespace

absl::StatusOr<LocalShape> MakeLocalShape(const ModelConfig& config, int rank,
                                          int tp_size) {
  const std::string obstacle = Obstacle(config, tp_size);
  if (!obstacle.empty())
    return absl::InvalidArgumentError(
        absl::StrCat(obstacle, "; this model runs at tp_size ",
                     absl::StrJoin(PossibleSizes(config), ", ")));
  if (rank < 0 || rank >= tp_size)
    return absl::InvalidArgumentError(
        absl::StrCat("rank is ", rank, "; must be 0..", tp_size - 1));
  LocalShape shape;
  shape.rank = rank;
  shape.tp_size = tp_size;
  shape.slices = kContractionSlices / tp_size;
  shape.query_heads = config.num_attention_heads / tp_size;
  const Range kv = ShardKvHeads(config.num_key_value_heads, rank, tp_size);
  shape.kv_heads = kv.size();
  shape.first_kv_head = kv.begin;
  shape.gdn_key_heads = config.linear_num_key_heads / tp_size;
  shape.gdn_value_heads = config.linear_num_value_heads / tp_size;
  shape.conv_channels = 2 * shape.gdn_key_heads * config.linear_key_head_dim +
                        shape.gdn_value_heads * config.linear_value_head_dim;
  shape.moe_part = rank;
  shape.moe_parts = tp_size;
  shape.moe_slices = shape.slices;
  shape.expert_width = config.moe_intermediate_size / tp_size;
  shape.shared_width = config.shared_expert_intermediate_size / tp_size;
  shape.mlp_width = config.intermediate_size / tp_size;
  shape.vocab_rows = CeilDivide(config.vocab_size, tp_size);
  shape.first_vocab = rank * shape.vocab_rows;
  return shape;
}

LocalShape WithWholeExperts(const ModelConfig& config, LocalShape shape) {
  shape.moe_part = 0;
  shape.moe_parts = 1;
  shape.moe_slices = kContractionSlices;
  shape.expert_width = config.moe_intermediate_size;
  shape.shared_width = config.shared_expert_intermediate_size;
  return shape;
}

}  // namespace phalanx
