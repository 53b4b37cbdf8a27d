#ifndef PHALANX_GATEWAY_CLI_DEFAULT_MODEL_H_
#define PHALANX_GATEWAY_CLI_DEFAULT_MODEL_H_

#include <string>

#include "absl/status/statusor.h"

namespace phalanx {

// The folder of the small model that the repository carries, for an installed
// or a built program. NOT_FOUND, with what to do, if it is not there.
absl::StatusOr<std::string> DefaultModelDir();

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_CLI_DEFAULT_MODEL_H_
