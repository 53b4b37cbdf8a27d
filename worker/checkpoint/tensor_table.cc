#include "worker/checkpoint/tensor_table.h"

#include <string>
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
  if (!config.tie_word_embeddings) visit(TensorId{.role = kLmHead});
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
    const StoredTensor& tensor = *it->second;
    const std::vector<int64_t> shape = ExpectedShape(id.role, config);
    table.tensors_.emplace(id, &tensor);
    const bool fp8 = tensor.type == StoredType::kF8E4M3;
    TensorId scale_id = id;
    scale_id.scale = true;
    const auto scale = found.find(scale_id);
    const bool may_be_fp8 = config.block_fp8 && MayBeFp8(id.role);
    if (!may_be_fp8 || (scale == found.end() && !fp8)) {
      if (tensor.shape != shape || !IsAllowedType(id.role, tensor.type))
        faults.wrong.Add(Describe(tensor, StoredType::kBf16, shape));
      return;
    }
    if (tensor.shape != shape || !fp8)
      faults.wrong.Add(Describe(tensor, StoredType::kF8E4M3, shape));
    if (scale == found.end())
      return faults.missing.Add(TensorName(scale_id, prefix));
    table.tensors_.emplace(*scale);
    const std::vector<int64_t> scale_shape = ScaleShape(id.role, config);
    if (scale->second->shape != scale_shape ||
        scale->second->type != StoredType::kBf16)
      faults.wrong.Add(
          Describe(*scale->second, StoredType::kBf16, scale_shape));
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
  const auto it = tensors_.find(
      TensorId{.role = role, .layer = layer, .expert = expert, .scale = true});
  return it == tensors_.end() ? nullptr : it->second;
}

bool TensorTable::fused_experts(int layer) const {
  return tensors_.contains(TensorId{.role = kExpertsGateUp, .layer = layer});
}

}  // namespace phalanx
