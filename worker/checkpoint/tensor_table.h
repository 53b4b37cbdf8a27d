#ifndef PHALANX_WORKER_CHECKPOINT_TENSOR_TABLE_H_
#define PHALANX_WORKER_CHECKPOINT_TENSOR_TABLE_H_

#include <map>

#include "absl/status/statusor.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/model_config.h"
#include "worker/checkpoint/tensor_names.h"

namespace phalanx {

// The text model's tensors, found and checked: exactly those that the config
// asks for, each of the right shape and type. A weight is FP8 where its
// multipliers are there, whatever file they are in; config says whether weights
// are codes. A view of the checkpoint.
class TensorTable {
 public:
  // DATA_LOSS lists all that is missing, unexpected or of a wrong shape or
  // type, with counts, in one bounded message.
  static absl::StatusOr<TensorTable> Match(const Checkpoint& checkpoint,
                                           const ModelConfig& config);

  // The tensor must be one that the config asks for.
  const StoredTensor& at(TensorRole role, int layer = -1,
                         int expert = -1) const;
  // The multipliers or the scales of groups beside it; null where it is bf16.
  const StoredTensor* scales(TensorRole role, int layer, int expert) const;
  // All of them, weights and what is beside them.
  const std::map<TensorId, const StoredTensor*>& tensors() const {
    return tensors_;
  }
  // True where all experts of the layer are in one tensor.
  bool fused_experts(int layer) const;

 private:
  TensorTable() = default;

  std::map<TensorId, const StoredTensor*> tensors_;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_CHECKPOINT_TENSOR_TABLE_H_
