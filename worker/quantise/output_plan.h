#ifndef PHALANX_WORKER_QUANTISE_OUTPUT_PLAN_H_
#define PHALANX_WORKER_QUANTISE_OUTPUT_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/weight_format.h"
#include "worker/checkpoint/model_config.h"
#include "worker/checkpoint/tensor_table.h"

namespace phalanx {

// A tensor of the new checkpoint.
struct OutputTensor {
  std::string name;
  StoredType type = StoredType::kBf16;
  std::vector<int64_t> shape;

  int64_t bytes() const;
};

// What one tensor of the old checkpoint becomes. Views of that checkpoint.
struct Conversion {
  const StoredTensor* source = nullptr;
  const StoredTensor* multipliers = nullptr;  // Where it is FP8.
  size_t output = 0;  // The copy in bf16 or f32, or the codes.
  bool quantised = false;
  size_t scales = 0;  // Where it is quantised: of its groups.
  int slices = 1;     // Where it is quantised: of its columns.
};

struct OutputPlan {
  std::vector<OutputTensor> tensors;  // In the order in which they are stored.
  std::vector<Conversion> conversions;
};

// All that `table` has, layer by layer; what MayBeQuantised as codes of
// `format`, under the names that the old checkpoint uses. A tied head gets
// codes of its own beside the table. `table` must be of `config`, which has no
// codes yet.
OutputPlan PlanOutput(const TensorTable& table, const ModelConfig& config,
                      WeightFormat format);

}  // namespace phalanx

#endif  // PHALANX_WORKER_QUANTISE_OUTPUT_PLAN_H_
