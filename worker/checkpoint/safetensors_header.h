#ifndef PHALANX_WORKER_CHECKPOINT_SAFETENSORS_HEADER_H_
#define PHALANX_WORKER_CHECKPOINT_SAFETENSORS_HEADER_H_

// The JSON part of a safetensors file, read event by event: a header of 100 MiB
// that is hostile costs no more memory than the tensors it lists.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace phalanx {

// One entry as written; nothing but its JSON has been checked.
struct HeaderEntry {
  std::string name;
  std::string dtype;
  std::vector<uint64_t> shape;
  std::vector<uint64_t> data_offsets;
};

// The entries in the order of the text; "__metadata__" is skipped. DATA_LOSS
// for what is not such a header or names a tensor twice; INVALID_ARGUMENT for
// what passes a limit of safetensors.h.
absl::StatusOr<std::vector<HeaderEntry>> ParseSafetensorsHeader(
    absl::string_view json);

}  // namespace phalanx

#endif  // PHALANX_WORKER_CHECKPOINT_SAFETENSORS_HEADER_H_
