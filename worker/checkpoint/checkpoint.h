#ifndef PHALANX_WORKER_CHECKPOINT_CHECKPOINT_H_
#define PHALANX_WORKER_CHECKPOINT_CHECKPOINT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/checkpoint/safetensors.h"

namespace phalanx {

inline constexpr int64_t kMaxIndexBytes = int64_t{100} << 20;
inline constexpr size_t kMaxCheckpointFiles = 4096;

// All tensors of a model folder, mapped. Made once by whoever loads, read-only
// from then on (any thread), dropped when the weights have been copied out.
class Checkpoint {
 public:
  // Follows model.safetensors.index.json where there is one, else opens
  // model.safetensors. NOT_FOUND lists the files that are missing;
  // INVALID_ARGUMENT for an index that points outside the folder; DATA_LOSS for
  // corrupt files, a tensor in two files, an index and files that disagree.
  static absl::StatusOr<Checkpoint> Open(const std::string& model_dir);

  // Sorted by name. Valid as long as the checkpoint, also after it moves.
  const std::vector<const StoredTensor*>& tensors() const { return tensors_; }
  // Null where there is no such tensor.
  const StoredTensor* Find(absl::string_view name) const;

  const std::vector<std::unique_ptr<SafetensorsFile>>& files() const {
    return files_;
  }

 private:
  Checkpoint() = default;

  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::vector<const StoredTensor*> tensors_;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_CHECKPOINT_CHECKPOINT_H_
