#ifndef PHALANX_WORKER_QUANTISE_QUANTISE_CHECKPOINT_H_
#define PHALANX_WORKER_QUANTISE_QUANTISE_CHECKPOINT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/quantise.h"
#include "kernels/weight_format.h"
#include "worker/checkpoint/load_jobs.h"
#include "worker/quantise/checkpoint_writer.h"

namespace phalanx {

struct QuantiseOptions {
  std::string model_dir;
  WeightFormat format = WeightFormat::kInt8;  // Not bf16.
  std::string out_dir;
  WeightRowQuantiser quantise_row = QuantiseWeightRow;
  LoadJobs::RunOptions run = {};  // Threads, progress, stop.
  int64_t max_file_bytes = kMaxOutputFileBytes;
};

struct QuantiseResult {
  int64_t source_bytes = 0;  // Of the files read, all tensors in them.
  int64_t bytes = 0;         // Of the files written.
  int64_t files = 0;         // Of weights.
};

// Makes folder `out_dir` from a bf16 or block-FP8 model: the weights that
// MayBeQuantised as codes and scales, the same that loading the model in this
// format makes; all other weights of the text model as bf16 or f32; tokenizer,
// template and generation_config.json as they are. The MTP head and the vision
// tower, which nothing here reads, are left out. All or nothing; the same bytes
// whatever the threads. Takes a few MiB a thread.
//
// Errors: those of Checkpoint::Open, LoadModelConfig and TensorTable::Match;
// INVALID_ARGUMENT for a model that is codes already; ALREADY_EXISTS where
// there is something at out_dir; RESOURCE_EXHAUSTED, with both numbers, where
// its disk has no room; CANCELLED follows run.stop.
absl::StatusOr<QuantiseResult> QuantiseCheckpoint(
    const QuantiseOptions& options);

}  // namespace phalanx

#endif  // PHALANX_WORKER_QUANTISE_QUANTISE_CHECKPOINT_H_
