#include "gateway/cli/standard_output.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace phalanx {

absl::Status WriteOut(absl::string_view text) {
  while (!text.empty()) {
    const ssize_t wrote = write(STDOUT_FILENO, text.data(), text.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0)
      return absl::UnavailableError(absl::StrCat(
          "standard output cannot be written: ", std::strerror(errno)));
    text.remove_prefix(wrote);
  }
  return absl::OkStatus();
}

}  // namespace phalanx
