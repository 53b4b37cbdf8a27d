#ifndef PHALANX_TESTS_WORKER_CHECKPOINT_PLAIN_TENSORS_H_
#define PHALANX_TESTS_WORKER_CHECKPOINT_PLAIN_TENSORS_H_

#include <string>

#include "tests/worker/checkpoint/checkpoint_files.h"

namespace phalanx {

// All tensors of a folder, turned into the plain dialect first and cut by
// nobody: FP8 into bf16, Qwen3-Next's rows per key head into q | k | v, z, b
// and a. It shares no code with the loader, whose yardstick it is.
TensorSpecs ReadPlainTensors(const std::string& model_dir);

}  // namespace phalanx

#endif  // PHALANX_TESTS_WORKER_CHECKPOINT_PLAIN_TENSORS_H_
