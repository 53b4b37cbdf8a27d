#ifndef PHALANX_GATEWAY_CLI_STANDARD_OUTPUT_H_
#define PHALANX_GATEWAY_CLI_STANDARD_OUTPUT_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace phalanx {

// Writes all of `text` to stdout, past stdio. UNAVAILABLE, with the system's
// word for it, if it is closed, full or a pipe that nobody reads.
absl::Status WriteOut(absl::string_view text);

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_CLI_STANDARD_OUTPUT_H_
