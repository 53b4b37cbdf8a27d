#ifndef PHALANX_WORKER_CPU_SHARE_H_
#define PHALANX_WORKER_CPU_SHARE_H_

#include <vector>

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

}  // namespace phalanx

#endif  // PHALANX_WORKER_CPU_SHARE_H_
