#ifndef PHALANX_KERNELS_CPU_CPU_BACKEND_H_
#define PHALANX_KERNELS_CPU_CPU_BACKEND_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/cpu/isa.h"

namespace phalanx {

struct CpuBackendConfig {
  int threads = 1;        // Those of the ops; the caller counts as one.
  std::vector<int> cpus;  // One a thread, to pin it; empty: not pinned.
  bool spin = true;       // See ThreadPoolConfig.

  // Unset: the best the processor has, or what PHALANX_ISA names.
  std::optional<Isa> isa;
  // Unset: by processor model; fma forces the universal bits.
  std::optional<KernelFamily> family;
  // Unset: where the processor has AVX512_VNNI and isa is kAvx512.
  std::optional<bool> vnni = std::nullopt;

  int64_t memory_limit_bytes = 0;  // Of all Buffers together; 0: none.
};

inline constexpr int kMaxCpuThreads = 1024;

// The served backend on processors: activations in bf16, host memory, ops that
// are done when they return. The thread that calls its ops is pinned and has
// denormals flushed from its first call on.
//   INVALID_ARGUMENT     a field of config, or PHALANX_ISA, is wrong
//   FAILED_PRECONDITION  the processor lacks what was asked for
//   RESOURCE_EXHAUSTED   the system gives no more threads
absl::StatusOr<std::unique_ptr<Backend>> CreateCpuBackend(
    const CpuBackendConfig& config);

}  // namespace phalanx

#endif  // PHALANX_KERNELS_CPU_CPU_BACKEND_H_
