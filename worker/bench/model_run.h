#ifndef PHALANX_WORKER_BENCH_MODEL_RUN_H_
#define PHALANX_WORKER_BENCH_MODEL_RUN_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "kernels/roof_loops.h"
#include "worker/bench/cases.h"
#include "worker/bench/model_report.h"
#include "worker/bench/rank_loop.h"
#include "worker/config.h"

namespace phalanx {

struct ModelBenchConfig {
  WorkerConfig rank;  // Of every rank; limits and pools follow from the cases.
  CaseFlags cases;
  int rounds = 5;               // Samples wanted of each case.
  double sample_seconds = 0.3;  // About, without looks at the machine.
  bool against_tp1 = true;      // Where there is more than one rank.
  uint64_t seed = 0;
};

// Measures a model: ranks in processes of their own, driven by plans, and the
// machine between samples. Errors are those of the flags, of
// planning and of loading. Not once the process has threads.
absl::StatusOr<ModelReport> RunModelBench(const ModelBenchConfig& config,
                                          const RoofLoops& loops,
                                          const PrepareRank& prepare);

}  // namespace phalanx

#endif  // PHALANX_WORKER_BENCH_MODEL_RUN_H_
