#include "worker/experts/mapped_bank.h"

#include <utility>
#include <vector>

#include "common/status.h"
#include "worker/checkpoint/expert_shapes.h"

namespace phalanx {
namespace {

int64_t StoredBytes(const TensorTable& table, const ModelConfig& config) {
  using enum TensorRole;
  int64_t bytes = 0;
  for (int layer = 0; layer < config.num_layers(); ++layer) {
    if (table.fused_experts(layer)) {
      for (const TensorRole role : {kExpertsGateUp, kExpertsDown})
        bytes += static_cast<int64_t>(table.at(role, layer).data.size());
      continue;
    }
    for (int e = 0; e < config.num_experts; ++e) {
      for (const TensorRole role : {kExpertGate, kExpertUp, kExpertDown}) {
        bytes += static_cast<int64_t>(table.at(role, layer, e).data.size());
        if (const StoredTensor* scales = table.scales(role, layer, e))
          bytes += static_cast<int64_t>(scales->data.size());
      }
    }
  }
  return bytes;
}

}  // namespace

absl::StatusOr<std::unique_ptr<MappedBank>> MappedBank::Create(
    Checkpoint checkpoint, const ModelConfig& config, const LocalShape& shape,
    Backend& backend, WeightFormat format) {
  ASSIGN_OR_RETURN(TensorTable table, TensorTable::Match(checkpoint, config));
  return std::unique_ptr<MappedBank>(new MappedBank(
      std::move(checkpoint), std::move(table), config, shape, backend, format));
}

MappedBank::MappedBank(Checkpoint checkpoint, TensorTable table,
                       const ModelConfig& config, const LocalShape& shape,
                       Backend& backend, WeightFormat format)
    : checkpoint_(std::move(checkpoint)),
      config_(config),
      shape_(shape),
      table_(std::move(table)),
      reader_(table_, config_, shape_),
      backend_(backend),
      expert_bytes_(ExpertShapesOf(config, shape, format, 1).share_bytes()),
      bytes_(StoredBytes(table_, config_)) {}

void MappedBank::Fetch(int layer, int expert, int64_t slot,
                       ExpertSlots& slots) const {
  // A fetch thread's for as long as it lives: no allocation in a fetch.
  static thread_local std::vector<uint16_t> scratch;
  backend_.PackWeight(reader_.GateUp(layer, expert, &scratch), slot,
                      slots.gate_up);
  backend_.PackWeight(reader_.Down(layer, expert, &scratch), slot, slots.down);
}

void MappedBank::WillNeed(int layer, int expert) const {
  reader_.WillNeed(layer, expert);
}

}  // namespace phalanx
