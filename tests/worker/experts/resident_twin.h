#ifndef PHALANX_TESTS_WORKER_EXPERTS_RESIDENT_TWIN_H_
#define PHALANX_TESTS_WORKER_EXPERTS_RESIDENT_TWIN_H_

// What a bank must put into a slot: the matrices that the loader packs where
// all experts are resident.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/status.h"
#include "kernels/backend.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/loader.h"
#include "worker/checkpoint/model_config.h"

namespace phalanx {

using MatrixBytes = std::vector<char>;

inline MatrixBytes ReadMatrix(Backend& backend, const PackedWeight& weight,
                              int64_t index) {
  MatrixBytes bytes(static_cast<size_t>(weight.matrix_bytes));
  backend.ReadPacked(weight, index, bytes.data());
  return bytes;
}

struct ResidentTwin {
  Checkpoint checkpoint;
  ModelConfig config;
  LocalShape shape;
  Weights weights;
};

// Rank `rank` of `tp_size`, or with every expert whole where `whole`.
inline absl::StatusOr<ResidentTwin> LoadResidentTwin(
    const std::string& model_dir, int rank, int tp_size, bool whole,
    Backend& backend, WeightFormat format = WeightFormat::kBf16) {
  ASSIGN_OR_RETURN(const ModelConfig config, LoadModelConfig(model_dir));
  ASSIGN_OR_RETURN(LocalShape shape, MakeLocalShape(config, rank, tp_size));
  if (whole) shape = WithWholeExperts(config, shape);
  ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::Open(model_dir));
  ASSIGN_OR_RETURN(Weights weights, LoadWeights(checkpoint, config, shape,
                                                backend, {.format = format}));
  return ResidentTwin{std::move(checkpoint), config, shape, std::move(weights)};
}

}  // namespace phalanx

#endif  // PHALANX_TESTS_WORKER_EXPERTS_RESIDENT_TWIN_H_
