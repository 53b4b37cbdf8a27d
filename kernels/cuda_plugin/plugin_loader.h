#ifndef PHALANX_KERNELS_CUDA_PLUGIN_PLUGIN_LOADER_H_
#define PHALANX_KERNELS_CUDA_PLUGIN_PLUGIN_LOADER_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda_plugin/plugin_table.h"

namespace phalanx {

// libphalanx_cuda.so beside the program that runs.
std::string CudaPluginPath();

// Maps the plugin; it stays mapped until the process ends, since backends have
// their code there. Any thread.
//   NOT_FOUND            no such file, or not one that can be loaded; names it
//   FAILED_PRECONDITION  of another ABI or version than this program
absl::StatusOr<const CudaPluginTable*> LoadCudaPlugin(const std::string& path);

// OK where the plugin has every operation that the model may use; else
// UNIMPLEMENTED, with those that are missing.
absl::Status CheckCudaServes(const CudaPluginTable& plugin);

// The three steps of --device cuda: load, check, create.
absl::StatusOr<std::unique_ptr<Backend>> CreateServedCudaBackend(
    const std::string& path, const CudaBackendConfig& config);

}  // namespace phalanx

#endif  // PHALANX_KERNELS_CUDA_PLUGIN_PLUGIN_LOADER_H_
