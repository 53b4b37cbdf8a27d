#ifndef PHALANX_KERNELS_CUDA_PLUGIN_PLUGIN_TABLE_H_
#define PHALANX_KERNELS_CUDA_PLUGIN_PLUGIN_TABLE_H_

// What libphalanx_cuda.so shows to the program that loads it. Both are of one
// build, with one compiler and one standard library; the ABI number and the
// version are there to find out when they are not.

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace phalanx {

struct CudaBackendConfig {
  int device = 0;  // The card's index, as the CUDA runtime counts.

  // Products by tensor cores where the model's shape allows; else, and where
  // this is false, one fused multiply-add a column: kernel family fma.
  bool tensor_cores = false;

  int64_t memory_limit_bytes = 0;  // Of all Buffers together; 0: the card's.

  // Of the card's memory, for checkpoint rows on their way into tiles; at least
  // 16 rows of the widest weight.
  int64_t staging_bytes = int64_t{8} << 20;

  // Waits for each operation, so that an error is told of the right one.
  bool synchronize_each_op = false;
};

// Raise it with every change to this file, Backend, Ops, or a type in their
// signatures.
inline constexpr int32_t kCudaPluginAbi = 2;

struct CudaPluginTable {
  int32_t abi;          // First for ever, so that it may be read in any case.
  const char* version;  // kVersion
  // Operations of ops.h that the plugin has no kernel for, separated by ", ";
  // "" where none is missing. A backend is served only then.
  const char* missing_ops;
  // FAILED_PRECONDITION where there is no driver, no such card, or one that the
  // plugin was not built for; INVALID_ARGUMENT names the field of the config.
  absl::StatusOr<std::unique_ptr<Backend>> (*create)(
      const CudaBackendConfig& config);
};

// The one symbol that the plugin exports, of type CudaPluginTable.
inline constexpr char kCudaPluginSymbol[] = "phalanx_cuda_plugin";

}  // namespace phalanx

#endif  // PHALANX_KERNELS_CUDA_PLUGIN_PLUGIN_TABLE_H_
