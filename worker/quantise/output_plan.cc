#include "worker/quantise/output_plan.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "common/check.h"
#include "worker/checkpoint/tensor_rules.h"

namespace phalanx {
namespace {

int64_t ElementBytesOf(StoredType type) {
  switch (type) {
    case StoredType::kU8:
      return 1;
    case StoredType::kBf16:
      return 2;
    case StoredType::kF32:
      return 4;
    default:
      CHECK(false);  // No other type is written.
      return 0;
  }
}

class Planner {
 public:
  Planner(const ModelConfig& config, WeightFormat format)
      : config_(config), format_(format) {}

  void Add(const TensorId& id, const std::string& name,
           const StoredTensor& source, const StoredTensor* multipliers) {
    Conversion conversion = {.source = &source,
                             .multipliers = multipliers,
                             .output = plan_.tensors.size(),
                             .quantised = MayBeQuantised(id.role)};
    if (!conversion.quantised) {
      plan_.tensors.push_back(
          {.name = name,
           .type = multipliers == nullptr ? source.type : StoredType::kBf16,
           .shape = source.shape});
    } else {
      CodedShape shape = CodedShapeOf(id.role, config_, format_);
      conversion.scales = conversion.output + 1;
      conversion.slices = StoredSlicesOf(id.role);
      plan_.tensors.push_back({.name = name,
                               .type = StoredType::kU8,
                               .shape = std::move(shape.codes)});
      plan_.tensors.push_back({.name = GroupScalesName(name),
                               .type = StoredType::kBf16,
                               .shape = std::move(shape.scales)});
    }
    plan_.conversions.push_back(conversion);
  }

  OutputPlan Take() { return std::move(plan_); }

 private:
  const ModelConfig& config_;
  const WeightFormat format_;
  OutputPlan plan_;
};

}  // namespace

int64_t OutputTensor::bytes() const {
  int64_t bytes = ElementBytesOf(type);
  for (const int64_t size : shape) bytes *= size;
  return bytes;
}

OutputPlan PlanOutput(const TensorTable& table, const ModelConfig& config,
                      WeightFormat format) {
  CHECK(config.stored_weights == WeightFormat::kBf16 &&
        format != WeightFormat::kBf16);
  std::vector<TensorId> ids;
  for (const auto& [id, tensor] : table.tensors())
    if (id.scale == ScaleKind::kNone) ids.push_back(id);
  // The experts of a layer together, each in one run.
  const auto place = [](const TensorId& id) {
    return std::tuple(id.layer, id.expert, id.role);
  };
  std::sort(ids.begin(), ids.end(), [&](const TensorId& a, const TensorId& b) {
    return place(a) < place(b);
  });
  Planner planner(config, format);
  for (const TensorId& id : ids) {
    const StoredTensor& source = table.at(id.role, id.layer, id.expert);
    planner.Add(id, source.name, source,
                table.scales(id.role, id.layer, id.expert));
    if (id.role == TensorRole::kEmbed && config.tie_word_embeddings) {
      const TensorId head{.role = TensorRole::kLmHead};
      planner.Add(head, TensorName(head, ""), source, nullptr);
    }
  }
  return planner.Take();
}

}  // namespace phalanx
