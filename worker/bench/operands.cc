#include "worker/bench/operands.h"

#include <random>
#include <utility>

#include "kernels/bf16.h"

namespace phalanx {

absl::StatusOr<std::shared_ptr<PackedWeight>> Operands::Weights(
    const WeightShape& shape) {
  ASSIGN_OR_RETURN(
      PackedWeight weight,
      backend_.AllocateWeight(shape, MemoryComponent::kActivations, "weights"));
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-0.02f, 0.02f);
  std::vector<uint16_t> host(shape.rows * shape.cols);
  for (uint16_t& v : host) v = F32ToBf16(uniform(random));
  for (int64_t i = 0; i < shape.count; ++i)
    backend_.PackWeight(host.data(), i, weight);
  return std::make_shared<PackedWeight>(std::move(weight));
}

}  // namespace phalanx
