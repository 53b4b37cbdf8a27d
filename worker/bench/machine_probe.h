#ifndef PHALANX_WORKER_BENCH_MACHINE_PROBE_H_
#define PHALANX_WORKER_BENCH_MACHINE_PROBE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/roof_loops.h"
#include "worker/bench/roofs.h"

namespace phalanx {

struct ProbeConfig {
  RoofLoops loops;
  std::vector<int> cpus;    // A thread each; at least one.
  int64_t cache_bytes = 0;  // The set that is read is over 4 times as large.
};

// Measures the machine. Holds the memory that it reads, touched by the threads
// that read it; starts threads for each measurement and joins them, so that it
// has none while others work. One thread's; made after all forks.
class MachineProbe {
 public:
  explicit MachineProbe(ProbeConfig config);

  // Bytes of the set that is read.
  int64_t set_bytes() const { return set_bytes_; }

  // Everything; some 0.5 s.
  MachineRoofs Measure();
  // Of all threads, what reads and `peak` need; the rest is 0. Some 0.1 s.
  Roofs MeasureAll(Peak peak);

 private:
  double ReadOn(int threads);
  double PeakOn(int threads, double (*loop)());
  Roofs MeasureOn(int threads);
  double PingPongSeconds();

  const ProbeConfig config_;
  const int64_t set_bytes_;
  const std::unique_ptr<char, void (*)(void*)> set_;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_BENCH_MACHINE_PROBE_H_
