#ifndef PHALANX_TESTS_WORKER_CHECKPOINT_PACKED_BYTES_H_
#define PHALANX_TESTS_WORKER_CHECKPOINT_PACKED_BYTES_H_

// What the loader packs, as the bytes of plain rows.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/packed_weight.h"
#include "tests/worker/checkpoint/checkpoint_files.h"
#include "worker/checkpoint/weights.h"

namespace phalanx {

// Of a bf16 weight in a FakeBackend: `rows` rows; of any, all its matrices.
std::string BytesOf(const PackedWeight& weight, int64_t first_row,
                    int64_t rows);
std::string BytesOf(const PackedWeight& weight);

// All packed matrices of a rank's layers, in a fixed order.
std::vector<std::string> PackedBytes(const Weights& weights);

// The same, loaded from one file of these tensors under this config.json.
absl::StatusOr<std::vector<std::string>> LoadPacked(const TensorSpecs& tensors,
                                                    const std::string& config,
                                                    int rank = 0,
                                                    int tp_size = 1);

}  // namespace phalanx

#endif  // PHALANX_TESTS_WORKER_CHECKPOINT_PACKED_BYTES_H_
