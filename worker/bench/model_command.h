#ifndef PHALANX_WORKER_BENCH_MODEL_COMMAND_H_
#define PHALANX_WORKER_BENCH_MODEL_COMMAND_H_

#include "kernels/roof_loops.h"
#include "worker/bench/rank_loop.h"

namespace phalanx {

// `phalanx-worker bench-model`, which `phalanx bench model` runs; argv[0] is
// that verb. Prints a report, or what is wrong on stderr. The exit code: 0; 1
// if the model is not to be measured; above 100 for a wrong flag. Before the
// process has threads.
int RunBenchModelCommand(int argc, char** argv, const RoofLoops& loops,
                         const PrepareRank& prepare);

}  // namespace phalanx

#endif  // PHALANX_WORKER_BENCH_MODEL_COMMAND_H_
