#ifndef PHALANX_WORKER_CHECKPOINT_LOADER_H_
#define PHALANX_WORKER_CHECKPOINT_LOADER_H_

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/weight_format.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/load_jobs.h"
#include "worker/checkpoint/model_config.h"
#include "worker/checkpoint/weights.h"

namespace phalanx {

struct LoadOptions {
  // False where a bank holds the routed experts (worker/experts): then
  // MoeWeights::experts_* stay empty.
  bool routed_experts = true;
  // What the large matrices are held in (MayBeQuantised). Quantised as they are
  // packed, from bf16, which FP8 becomes first.
  WeightFormat format = WeightFormat::kBf16;
  // How many put matrices together at once, and whom they tell.
  LoadJobs::RunOptions run = {};
};

// Copies one rank's share of a checkpoint into the backend's memory, laid out
// as weights.h says; the same bytes whatever the threads. `shape` is
// MakeLocalShape's for `config`. Everything is allocated before the first byte
// is copied. On the host each thread takes a temporary of at most the largest
// matrix of the rank; pages of the mapped files are given back as they are done
// with.
//
// DATA_LOSS lists all tensors that are missing, unexpected or mis-shaped;
// RESOURCE_EXHAUSTED comes from the backend and names the weight, and so does
// UNIMPLEMENTED for a format that it has no products for; CANCELLED
// follows options.run.stop, at the next matrix. Call from the
// thread that may call Allocate; the result must die before the backend, and
// does not need the checkpoint any more.
absl::StatusOr<Weights> LoadWeights(const Checkpoint& checkpoint,
                                    const ModelConfig& config,
                                    const LocalShape& shape, Backend& backend,
                                    const LoadOptions& options = {});

}  // namespace phalanx

#endif  // PHALANX_WORKER_CHECKPOINT_LOADER_H_
