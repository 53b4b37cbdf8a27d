// Plugins with one thing wrong, or nothing: PLUGIN_ABI, PLUGIN_VERSION and
// PLUGIN_MISSING say what.

#include "absl/status/status.h"
#include "kernels/cuda_plugin/plugin_table.h"

extern "C" __attribute__((visibility("default")))
const phalanx::CudaPluginTable phalanx_cuda_plugin = {
    PLUGIN_ABI, PLUGIN_VERSION, PLUGIN_MISSING,
    [](const phalanx::CudaBackendConfig& config)
        -> absl::StatusOr<std::unique_ptr<phalanx::Backend>> {
      return absl::FailedPreconditionError("asked for device " +
                                           std::to_string(config.device));
    }};
