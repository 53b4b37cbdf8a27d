#ifndef PHALANX_WORKER_QUANTISE_COMMAND_H_
#define PHALANX_WORKER_QUANTISE_COMMAND_H_

// `phalanx-worker quantize`, which `phalanx quantize` runs: a model's folder in
// int8 or int4, from one in bf16 or block-FP8.

#include "absl/status/statusor.h"
#include "kernels/quantise.h"

namespace phalanx {

// argv[0] is "quantize", `row` what quantises, or why nothing can. Shows
// progress on stderr where that is a terminal, and ends with a line on stdout.
// The exit code: 0; 1 if it was refused or failed; 130 after SIGINT or SIGTERM;
// above 100 for a wrong flag. Unless it is 0, nothing is left behind. Blocks
// those signals, so call it before there are other threads.
int RunQuantizeCommand(int argc, char** argv,
                       const absl::StatusOr<WeightRowQuantiser>& row);

}  // namespace phalanx

#endif  // PHALANX_WORKER_QUANTISE_COMMAND_H_
