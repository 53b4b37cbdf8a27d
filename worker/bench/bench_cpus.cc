#include "worker/bench/bench_cpus.h"

#include <algorithm>

#include "worker/bench/cache_size.h"
#include "worker/cpu_share.h"

namespace phalanx {

std::vector<int> AllowedCpuIds() {
  std::vector<int> ids;
  for (const Cpu& cpu : AllowedCpus()) ids.push_back(cpu.id);
  return ids;
}

int ThreadsOfRank(int threads, int ranks) {
  return ShareCpus(AllowedCpus(), 0, ranks, threads).threads;
}

ProbeConfig ProbeOf(const RoofLoops& loops, int threads) {
  ProbeConfig config{
      .loops = loops,
      .cpus = AllowedCpuIds(),
      .cache_bytes = LargestCacheBytes("/sys/devices/system/cpu/cpu0/cache")};
  config.cpus.resize(
      std::min(config.cpus.size(), static_cast<size_t>(threads)));
  return config;
}

}  // namespace phalanx
