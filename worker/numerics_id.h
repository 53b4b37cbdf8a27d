#ifndef PHALANX_WORKER_NUMERICS_ID_H_
#define PHALANX_WORKER_NUMERICS_ID_H_

#include <string>

#include "absl/strings/string_view.h"
#include "kernels/weight_format.h"
#include "worker/checkpoint/model_config.h"

namespace phalanx {

// What promises equal bits to whoever has an equal one (design.md section 3):
// "<16 digits of the model's digest>-<8 of its config's>/<weights>/<kernel
// family>", where weights are "bf16", or "int8-1": a format and the version of
// what quantised to it. `source_digest` is SourceDigest, and ConfigDigest is of
// how the model computes, so both are the same for codes that were made before
// and at load. Any thread.
std::string NumericsId(absl::string_view source_digest,
                       const ModelConfig& config, WeightFormat weights,
                       absl::string_view kernel_family);

}  // namespace phalanx

#endif  // PHALANX_WORKER_NUMERICS_ID_H_
