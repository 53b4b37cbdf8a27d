#include "worker/checkpoint/tensor_table.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/check.h"
#include "worker/checkpoint/foreign_format.h"
#include "worker/checkpoint/name_list.h"
#include "worker/checkpoint/tensor_rules.h"

namespace phalanx {
namespace {

using enum TensorRole;
using Found = std::map<TensorId, const StoredTensor*>;

// Calls `visit(id)` for every tensor that the config asks for. Whether a layer
// has fused experts is asked of what was found.
template <typename Visit>
void ForEachExpected(const ModelConfig& config, const Found& found,
                     Visit visit) {
  visit(TensorId{.role = kEmbed});
  visit(TensorId{.role = kFinalNorm});
  if (config.has_lm_head()) visit(TensorId{.role = kLmHead});
  for (int layer = 0; layer < config.num_layers(); ++layer) {
    const auto visit_all = [&](std::initializer_list<TensorRole> roles,
                               int expert = -1) {
      for (TensorRole role : roles)
        visit(TensorId{.role = role, .layer = layer, .expert = expert});
    };
    visit_all({kInputNorm, kPostAttentionNorm});
    if (config.layer_types[static_cast<size_t>(layer)] ==
        LayerKind::kFullAttention) {
      visit_all({kQProj, kKProj, kVProj, kOProj, kQNorm, kKNorm});
    } else {
      visit_all({kConv, kALog, kDtBias, kGdnNorm, kOutProj});
      if (config.dialect == Dialect::kNext)
        visit_all({kInProjQkvz, kInProjBa});
      else
        visit_all({kInProjQkv, kInProjZ, kInProjB, kInProjA});
    }
    if (!config.has_experts()) {
      visit_all({kMlpGateProj, kMlpUpProj, kMlpDownProj});
      continue;
    }
    visit_all({kRouter, kSharedGateProj, kSharedUpProj, kSharedDownProj,
               kSharedExpertGate});
    // One tensor of a single expert decides; with none at all, the fused names
    // are what is missing.
    const auto first = found.lower_bound(
        TensorId{.role = kExpertGate, .layer = layer, .expert = 0});
    const bool single = first != found.end() && !first->first.mtp &&
                        first->first.role == kExpertGate &&
                        first->first.layer == layer;
    if (!single) {
      visit_all({kExpertsGateUp, kExpertsDown});
    } else {
      for (int e = 0; e < config.num_experts; ++e)
        visit_all({kExpertGate, kExpertUp, kExpertDown}, e);
    }
  }
}

std::string Describe(const StoredTensor& tensor, StoredType type,
                     const std::vector<int64_t>& shape) {
  return absl::StrCat(tensor.name, " is ", StoredTypeName(tensor.type), " [",
                      absl::StrJoin(tensor.shape, ","), "], must be ",
                      StoredTypeName(type), " [", absl::StrJoin(shape, ","),
                      "]");
}

// How a weight must be stored, and what must be beside it.
struct Wanted {
  StoredType type = StoredType::kBf16;
  std::vector<int64_t> shape;
  ScaleKind scale = ScaleKind::kNone;
  std::vector<int64_t> scale_shape = {};  // Of bf16.
};

Wanted WantedOf(const TensorId& id, const StoredTensor& tensor,
                const Found& found, const ModelConfig& config) {
  if (config.stored_weights != WeightFormat::kBf16 && MayBeQuantised(id.role)) {
    CodedShape shape = CodedShapeOf(id.role, config, config.stored_weights);
    return {.type = StoredType::kU8,
            .shape = std::move(shape.codes),
            .scale = ScaleKind::kGroups,
            .scale_shape = std::move(shape.scales)};
  }
  Wanted bf16 = {.shape = ExpectedShape(id.role, config)};
  if (!config.block_fp8 || !MayBeFp8(id.role)) return bf16;
  TensorId scale_id = id;
  scale_id.scale = ScaleKind::kBlocks;
  if (tensor.type != StoredType::kF8E4M3 && !found.contains(scale_id))
    return bf16;
  return {.type = StoredType::kF8E4M3,
          .shape = std::move(bf16.shape),
          .scale = ScaleKind::kBlocks,
          .scale_shape = ScaleShape(id.role, config)};
}

// What is wrong with a checkpoint, by kind.
struct Faults {
  NameList missing;
  NameList unexpected;
  NameList wrong;

  absl::Status ToStatus() const {
    if (missing.count() + unexpected.count() + wrong.count() == 0)
      return absl::OkStatus();
    std::vector<std::string> parts;
    if (missing.count() > 0)
      parts.push_back(
          absl::StrCat(missing.count(), " missing (", missing.text(), ")"));
    if (unexpected.count() > 0)
      parts.push_back(absl::StrCat(unexpected.count(), " unexpected (",
                                   unexpected.text(), ")"));
    if (wrong.count() > 0)
      parts.push_back(absl::StrCat(wrong.count(), " of a wrong shape or type (",
                                   wrong.text(), ")"));
    return absl::DataLossError(
        absl::StrCat("checkpoint and config.json disagree on tensors: ",
                     absl::StrJoin(parts, "; ")));
  }
};

}  // namespace

absl::StatusOr<TensorTable> TensorTable::Match(const Checkpoint& checkpoint,
                                               const ModelConfig& config) {
  Faults faults;
  Found found;
  std::string prefix =
      config.dialect == Dialect::kNested ? "model.language_model." : "model.";
  for (const StoredTensor* tensor : checkpoint.tensors()) {
    if (IsSkippedTensor(tensor->name)) continue;
    const absl::string_view foreign = ForeignFormatOfTensor(tensor->name);
    if (!foreign.empty())
      return NotServed(absl::StrCat("tensor ", absl::CEscape(tensor->name),
                                    " is of ", foreign));
    const auto id = ParseTensorName(tensor->name);
    if (!id.has_value() || !found.emplace(*id, tensor).second)
      faults.unexpected.Add(tensor->name);
    else if (id->role == kEmbed)
      prefix = std::string(LanguagePrefix(tensor->name));
  }
  TensorTable table;
  ForEachExpected(config, found, [&](const TensorId& id) {
    const auto it = found.find(id);
    if (it == found.end()) return faults.missing.Add(TensorName(id, prefix));
    table.tensors_.insert(*it);
    const Wanted wanted = WantedOf(id, *it->second, found, config);
    const bool as_wanted = wanted.type == StoredType::kBf16
                               ? IsAllowedType(id.role, it->second->type)
                               : it->second->type == wanted.type;
    if (it->second->shape != wanted.shape || !as_wanted)
      faults.wrong.Add(Describe(*it->second, wanted.type, wanted.shape));
    if (wanted.scale == ScaleKind::kNone) return;
    TensorId scale_id = id;
    scale_id.scale = wanted.scale;
    const auto scale = found.find(scale_id);
    if (scale == found.end())
      return faults.missing.Add(TensorName(scale_id, prefix));
    table.tensors_.insert(*scale);
    if (scale->second->shape != wanted.scale_shape ||
        scale->second->type != StoredType::kBf16)
      faults.wrong.Add(
          Describe(*scale->second, StoredType::kBf16, wanted.scale_shape));
  });
  for (const auto& [id, tensor] : found)
    if (!table.tensors_.contains(id)) faults.unexpected.Add(tensor->name);
  const absl::Status status = faults.ToStatus();
  if (!status.ok()) return status;
  return table;
}

const StoredTensor& TensorTable::at(TensorRole role, int layer,
                                    int expert) const {
  const auto it =
      tensors_.find(TensorId{.role = role, .layer = layer, .expert = expert});
  CHECK(it != tensors_.end());
  return *it->second;
}

const StoredTensor* TensorTable::scales(TensorRole role, int layer,
                                        int expert) const {
  TensorId id{.role = role, .layer = layer, .expert = expert};
  for (const ScaleKind kind : {ScaleKind::kBlocks, ScaleKind::kGroups}) {
    id.scale = kind;
    if (const auto it = tensors_.find(id); it != tensors_.end())
      return it->second;
  }
  return nullptr;
}

bool TensorTable::fused_experts(int layer) const {
  return tensors_.contains(TensorId{.role = kExpertsGateUp, .layer = layer});
}

}  // namespace phalanx
