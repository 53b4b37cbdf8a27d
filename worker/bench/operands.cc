#include "worker/bench/operands.h"

#include <random>
#include <utility>

#include "kernels/bf16.h"

namespace phalanx {

absl::StatusOr<std::vector<PackedWeight>> Operands::Weights(
    const WeightShape& shape, int64_t count) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-0.02f, 0.02f);
  std::vector<uint16_t> host(shape.rows * shape.cols);
  for (uint16_t& v : host) v = F32ToBf16(uniform(random));
  // One is packed, the others are copies: quantising takes long.
  std::vector<char> packed;
  std::vector<PackedWeight> weights;
  for (int64_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(PackedWeight weight,
                     backend_.AllocateWeight(
                         shape, MemoryComponent::kActivations, "weights"));
    if (packed.empty()) {
      packed.resize(weight.matrix_bytes);
      backend_.PackWeight(host.data(), 0, weight);
      backend_.ReadPacked(weight, 0, packed.data());
    }
    for (int64_t m = 0; m < shape.count; ++m)
      backend_.StorePacked(packed.data(), m, weight);
    weights.push_back(std::move(weight));
  }
  return weights;
}

}  // namespace phalanx
