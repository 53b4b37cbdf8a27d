#ifndef PHALANX_WORKER_BENCH_BENCH_CPUS_H_
#define PHALANX_WORKER_BENCH_BENCH_CPUS_H_

#include <vector>

#include "kernels/roof_loops.h"
#include "worker/bench/machine_probe.h"

namespace phalanx {

// Ids of the CPUs that this process may use.
std::vector<int> AllowedCpuIds();

// What the flag --threads of a rank means where `ranks` share this process's
// CPUs: 0 is an equal part.
int ThreadsOfRank(int threads, int ranks);

// Measures with so many threads, on the first CPUs of this process that ranks
// would use; at most with all of them.
ProbeConfig ProbeOf(const RoofLoops& loops, int threads);

}  // namespace phalanx

#endif  // PHALANX_WORKER_BENCH_BENCH_CPUS_H_
