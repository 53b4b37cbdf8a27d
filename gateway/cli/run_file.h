#ifndef PHALANX_GATEWAY_CLI_RUN_FILE_H_
#define PHALANX_GATEWAY_CLI_RUN_FILE_H_

// Where `phalanx serve` notes its addresses, so that the next command of the
// same user finds them.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace phalanx {

struct RunFile {
  std::string address;          // Of Inference.
  std::string admin_address;    // Of Admin.
  int64_t pid = 0;              // Of `phalanx serve` itself.
  std::string metrics_address;  // Of the gateway's /metrics; empty: none.
};

// A folder of this user alone (0700), made if absent: $XDG_RUNTIME_DIR/phalanx,
// or phalanx-<uid> in the folder for temporary files if there is no such
// folder. PERMISSION_DENIED if somebody else owns what is there; NOT_FOUND if
// there is no folder for temporary files either.
absl::StatusOr<std::string> RuntimeFolder();

// Replaces the file of an earlier serve.
absl::Status WriteRunFile(const RunFile& run);

// NOT_FOUND, with what to do, if there is none or its process is gone.
absl::StatusOr<RunFile> ReadRunFile();

// Removes the file if it is this process's.
void RemoveRunFile();

// A new folder in RuntimeFolder for the sockets of one serve, named after this
// process. Folders of processes that are gone are removed. INVALID_ARGUMENT if
// its path is too long for a socket in it.
absl::StatusOr<std::string> MakeSocketFolder();

// The file in RuntimeFolder whose bytes every gateway of this user's serves
// signs its resume tokens with, so that one which is restarted, or started anew
// by another serve, resumes the streams of the one before. Made, of random
// bytes, if it is absent; mode 0600. FAILED_PRECONDITION if it cannot be.
absl::StatusOr<std::string> ResumeKeyFile();

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_CLI_RUN_FILE_H_
