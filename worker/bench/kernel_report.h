#ifndef PHALANX_WORKER_BENCH_KERNEL_REPORT_H_
#define PHALANX_WORKER_BENCH_KERNEL_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "worker/bench/roofs.h"
#include "worker/bench/samples.h"

namespace phalanx {

// What one call of a kernel is.
struct KernelWork {
  std::string name;    // "product"
  std::string format;  // Of its weights; empty: it has none.
  int64_t rows = 0;
  double bytes = 0;  // Read, of what no cache need hold.
  double flops = 0;
  Peak peak = Peak::kNone;
  bool to_and_fro = false;  // A line's way to another core and back, at least.
};

struct KernelSample {
  double seconds = 0;  // Of a call.
  Roofs roofs;         // The machine of that minute.
};

struct KernelCaseReport {
  KernelWork work;
  SampleCount count;
  std::vector<KernelSample> samples;  // Those that were kept.
};

struct KernelReport {
  std::string processor;
  std::string kernel_family;
  std::string instruction_set;
  int threads = 0;
  int rounds = 0;
  MachineRoofs before;
  MachineRoofs after;
  std::vector<KernelCaseReport> cases;
  std::vector<std::string> left_out;
};

// The least time that a call could take on a machine, over the time it took:
// the longer of its bytes at the read bandwidth and its operations at the peak.
// Above 1 where caches held what was read. 0: the machine has no such peak.
double RoofShare(const KernelWork& work, const KernelSample& sample,
                 double ping_pong_seconds);

// For a person, lines of at most 100 columns.
std::string KernelText(const KernelReport& report);

// One JSON object; README.md lists its fields.
std::string KernelJson(const KernelReport& report);

}  // namespace phalanx

#endif  // PHALANX_WORKER_BENCH_KERNEL_REPORT_H_
