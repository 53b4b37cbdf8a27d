#ifndef PHALANX_WORKER_CHECKPOINT_WEIGHT_INDEX_H_
#define PHALANX_WORKER_CHECKPOINT_WEIGHT_INDEX_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace phalanx {

// Tensor name to the name of its file, from the text of
// model.safetensors.index.json. Read event by event, so that a hostile index
// costs no more than its names. INVALID_ARGUMENT names what is wrong; a file
// name is one plain name that ends in ".safetensors", with no folder in it.
absl::StatusOr<std::map<std::string, std::string>> ParseWeightIndex(
    absl::string_view json);

}  // namespace phalanx

#endif  // PHALANX_WORKER_CHECKPOINT_WEIGHT_INDEX_H_
