#ifndef PHALANX_KERNELS_CUDA_CUDA_BACKEND_H_
#define PHALANX_KERNELS_CUDA_CUDA_BACKEND_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda_plugin/plugin_table.h"

namespace phalanx {

// The served backend on one card: activations in bf16, the card's memory, ops
// enqueued on a stream of its own. Has no kernel yet for kMissingOps
// (missing_ops.h). `tensor_core` is the product that config.tensor_cores asks
// for; null in a build that has none. Errors as in CudaPluginTable::create.
absl::StatusOr<std::unique_ptr<Backend>> CreateCudaBackend(
    const CudaBackendConfig& config, cuda::ProductFn tensor_core);

}  // namespace phalanx

#endif  // PHALANX_KERNELS_CUDA_CUDA_BACKEND_H_
