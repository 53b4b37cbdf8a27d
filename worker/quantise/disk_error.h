#ifndef PHALANX_WORKER_QUANTISE_DISK_ERROR_H_
#define PHALANX_WORKER_QUANTISE_DISK_ERROR_H_

#include <cerrno>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace phalanx {

// "cannot <doing> <what>: <the system's words for `error`>", `error` being of
// errno: RESOURCE_EXHAUSTED where a disk or a quota is full, else
// FAILED_PRECONDITION. Any thread.
inline absl::Status DiskError(absl::string_view doing, absl::string_view what,
                              int error) {
  const std::string text =
      absl::StrCat("cannot ", doing, " ", what, ": ", std::strerror(error));
  return error == ENOSPC || error == EDQUOT
             ? absl::ResourceExhaustedError(text)
             : absl::FailedPreconditionError(text);
}

}  // namespace phalanx

#endif  // PHALANX_WORKER_QUANTISE_DISK_ERROR_H_
