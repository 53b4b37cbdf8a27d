#ifndef PHALANX_WORKER_QUANTISE_QUANTISED_CONFIG_H_
#define PHALANX_WORKER_QUANTISE_QUANTISED_CONFIG_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/weight_format.h"
#include "worker/checkpoint/model_config.h"

namespace phalanx {

// config.json of the quantised model: that of the model it is made from, its
// members in their order, with a quantization_config of ours in place of what
// there was. INVALID_ARGUMENT for what is no JSON object.
absl::StatusOr<std::string> QuantisedConfig(absl::string_view config_json,
                                            WeightFormat format,
                                            const CodesOrigin& origin);

}  // namespace phalanx

#endif  // PHALANX_WORKER_QUANTISE_QUANTISED_CONFIG_H_
