#ifndef PHALANX_GATEWAY_API_REQUEST_CHECK_H_
#define PHALANX_GATEWAY_API_REQUEST_CHECK_H_

// What a client may ask for at all: limits of single fields, and fields that
// this build does not serve. Pure; any thread.

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "inference.pb.h"

namespace phalanx {

// UNIMPLEMENTED/FEATURE_OFF{feature} names the first field that is set and not
// served; INVALID_ARGUMENT/BAD_FIELD{field} names a value and its limits.
absl::Status CheckRequest(const v1::GenerateRequest& request);
absl::Status CheckRequest(const v1::ChatRequest& request);

// INVALID_ARGUMENT/BAD_FIELD{field}.
absl::Status BadField(absl::string_view field, absl::string_view message);

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_API_REQUEST_CHECK_H_
