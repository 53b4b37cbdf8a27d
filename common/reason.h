#ifndef PHALANX_COMMON_REASON_H_
#define PHALANX_COMMON_REASON_H_

// A status's machine-readable why: the reason column of serving.md section 2,
// with its numbers. Carried inside absl::Status as a payload, sent to clients
// as google.rpc.ErrorInfo (grpc_status.h).

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace phalanx {

struct Reason {
  std::string word;                             // "QUEUE_FULL"; empty: none.
  std::map<std::string, std::string> metadata;  // {"limit", "64"}
};

// A status with its reason. `message` says what, the number and the limit.
absl::Status ReasonedError(absl::StatusCode code, absl::string_view word,
                           absl::string_view message,
                           std::map<std::string, std::string> metadata = {});

// `reason` as a google.rpc.ErrorInfo of our domain, whose type is named by
// kErrorInfoType. Equal reasons are equal bytes, in every process.
inline constexpr char kErrorInfoType[] =
    "type.googleapis.com/google.rpc.ErrorInfo";
std::string ErrorInfoBytes(const Reason& reason);

// What ReasonedError put in; an empty word if nothing.
Reason ReasonOf(const absl::Status& status);

}  // namespace phalanx

#endif  // PHALANX_COMMON_REASON_H_
