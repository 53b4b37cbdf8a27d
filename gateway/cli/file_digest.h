#ifndef PHALANX_GATEWAY_CLI_FILE_DIGEST_H_
#define PHALANX_GATEWAY_CLI_FILE_DIGEST_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace phalanx {

// How far a reading of files is; bytes are those of the files' contents.
struct ReadProgress {
  int64_t done_bytes = 0;
  int64_t total_bytes = 0;
  double seconds = 0;

  double bytes_per_second() const {
    return seconds > 0 ? static_cast<double>(done_bytes) / seconds : 0;
  }
};

struct FileDigests {
  // By name: 64 lower-case hexadecimal digits, or why the file is not to be
  // read to its end.
  std::map<std::string, absl::StatusOr<std::string>> digests;
  ReadProgress read;
};

// The SHA-256 of every byte of `names`, files in `folder`: as many at once as
// there are CPUs, the largest first, 1 MiB of memory each. `on_progress` is
// called on this thread, ten times a second.
FileDigests DigestFiles(
    const std::string& folder, const std::vector<std::string>& names,
    const std::function<void(const ReadProgress&)>& on_progress);

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_CLI_FILE_DIGEST_H_
