#ifndef PHALANX_WORKER_CAPACITY_H_
#define PHALANX_WORKER_CAPACITY_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/tensor.h"
#include "worker/checkpoint/model_config.h"
#include "worker/config.h"
#include "worker/scheduler/limits.h"

namespace phalanx {

// The CPUs that this process may use: its affinity mask. Never empty.
std::vector<int> AllowedCpus();

// Which of them one rank computes on.
struct CpuShare {
  int threads = 1;
  std::vector<int> cpus;  // Where to pin them; empty: not pinned.
  bool spin = true;       // False where ranks x threads exceed the CPUs.
};

// Disjoint shares of the host's CPUs, by rank; threads 0 means CPUs / tp_size.
CpuShare ShareCpus(const std::vector<int>& allowed, int rank, int tp_size,
                   int threads);

// Memory that is free for new use on this host: MemAvailable, cut to what the
// control group leaves.
int64_t AvailableMemoryBytes();

// The bounds of this rank's scheduler and caches: what the flags say, the
// model's own limit, and, where kv_blocks is not given, max_running whole
// contexts or a quarter of `available_bytes` over all ranks, whichever is less.
// INVALID_ARGUMENT names the flag, the value and the limit.
absl::StatusOr<SchedulerLimits> PlanCapacity(const WorkerConfig& flags,
                                             const ModelConfig& config,
                                             const LocalShape& local, DType act,
                                             int64_t available_bytes);

}  // namespace phalanx

#endif  // PHALANX_WORKER_CAPACITY_H_
