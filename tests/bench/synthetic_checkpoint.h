#ifndef PHALANX_TESTS_BENCH_SYNTHETIC_CHECKPOINT_H_
#define PHALANX_TESTS_BENCH_SYNTHETIC_CHECKPOINT_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "tests/bench/synthetic_model.h"

namespace phalanx {

struct SyntheticWriting {
  int threads = 1;
  // A file is begun before it would have more, if it has a tensor.
  int64_t shard_bytes = 4'000'000'000;
  // Bytes of weights written so far, and all there will be. Called by one
  // thread at a time, after each piece of some MB.
  std::function<void(int64_t done, int64_t total)> on_progress = nullptr;
};

struct SyntheticFiles {
  int64_t weight_bytes = 0;
  int tensors = 0;
  int files = 0;  // Of weights.
};

// Writes model.safetensors, or shards and their index, and last config.json, so
// that a folder with one is whole. The bytes depend on `model` alone. Nothing
// is held but the headers and a piece for each thread.
//
// The folder is made if there is none. INVALID_ARGUMENT for sizes that no model
// has, ALREADY_EXISTS if something is in the folder, RESOURCE_EXHAUSTED if the
// disk lacks room, with what is needed and what is free.
absl::StatusOr<SyntheticFiles> WriteSyntheticCheckpoint(
    const SyntheticModel& model, const std::string& folder,
    const SyntheticWriting& writing = {});

}  // namespace phalanx

#endif  // PHALANX_TESTS_BENCH_SYNTHETIC_CHECKPOINT_H_
