#ifndef PHALANX_WORKER_BENCH_KERNELS_COMMAND_H_
#define PHALANX_WORKER_BENCH_KERNELS_COMMAND_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/roof_loops.h"
#include "worker/config.h"
#include "worker/cpu_share.h"

namespace phalanx {

using MakeBackend = std::function<absl::StatusOr<std::unique_ptr<Backend>>(
    const WorkerConfig& flags, const CpuShare& cpus)>;

// `phalanx-worker bench-kernels`, which `phalanx bench kernels` runs; argv[0]
// is that verb. Prints a report, or what is wrong on stderr. The exit code: 0;
// 1 if there is no backend; above 100 for a wrong flag. Before the process has
// threads.
int RunBenchKernelsCommand(int argc, char** argv, const RoofLoops& loops,
                           const MakeBackend& make_backend);

}  // namespace phalanx

#endif  // PHALANX_WORKER_BENCH_KERNELS_COMMAND_H_
