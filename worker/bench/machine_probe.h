#ifndef PHALANX_WORKER_BENCH_MACHINE_PROBE_H_
#define PHALANX_WORKER_BENCH_MACHINE_PROBE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/roof_loops.h"

namespace phalanx {

// What some cores of the machine can do at a moment. 0: they have no such
// instruction.
struct Roofs {
  double read = 0;      // Bytes a second, from memory that no cache holds.
  double f32_fma = 0;   // Operations a second, two for a multiply-add; as all.
  double bf16_dot = 0;  // Of bf16 by bf16, summed in f32.
  double int8_dot = 0;  // Of u8 by s8, summed in i32.

  // The faster way to multiply bf16.
  double bf16_peak() const { return f32_fma > bf16_dot ? f32_fma : bf16_dot; }
};

// The operations that bound a piece of work beside its bytes.
enum class Peak : uint8_t {
  kNone,  // Its bytes alone do.
  kF32,   // Multiply-adds of f32.
  kBf16,  // The faster way to multiply bf16.
  kInt8,  // The dot product of int8.
};

// 0 of kNone, and where the machine has no such instruction.
double PeakOf(Peak peak, const Roofs& roofs);

// All that is told of a machine.
struct MachineRoofs {
  Roofs one;  // Thread.
  Roofs all;  // Threads.
  // A cache line from one core to another and back; 0 where there is only one.
  double ping_pong_seconds = 0;
};

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
