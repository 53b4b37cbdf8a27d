#include "worker/cpu_share.h"

#include <sched.h>

#include <algorithm>

namespace phalanx {

std::vector<int> AllowedCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  if (cpus.empty()) cpus.push_back(0);
  return cpus;
}

CpuShare ShareCpus(const std::vector<int>& allowed, int rank, int tp_size,
                   int threads) {
  const int count = static_cast<int>(allowed.size());
  CpuShare share;
  share.threads = threads > 0 ? threads : std::max(1, count / tp_size);
  share.spin = share.threads * tp_size <= count;
  if (share.spin) {
    const auto first = allowed.begin() + rank * share.threads;
    share.cpus.assign(first, first + share.threads);
  }
  return share;
}

}  // namespace phalanx
