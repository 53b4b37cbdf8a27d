// The one symbol of libphalanx_cuda.so.

#include "common/version.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/missing_ops.h"
#include "kernels/cuda_plugin/plugin_table.h"

namespace phalanx {
namespace {

absl::StatusOr<std::unique_ptr<Backend>> Create(
    const CudaBackendConfig& config) {
  return CreateCudaBackend(config, cuda::TensorCoreProduct);
}

}  // namespace
}  // namespace phalanx

extern "C" __attribute__((visibility("default")))
const phalanx::CudaPluginTable phalanx_cuda_plugin = {
    phalanx::kCudaPluginAbi, phalanx::kVersion, phalanx::cuda::kMissingOps,
    phalanx::Create};
