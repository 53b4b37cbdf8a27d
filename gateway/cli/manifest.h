#ifndef PHALANX_GATEWAY_CLI_MANIFEST_H_
#define PHALANX_GATEWAY_CLI_MANIFEST_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace phalanx {

// What files should be: their SHA-256 in 64 lower-case hexadecimal digits, by
// their path from the model's folder.
using Manifest = std::map<std::string, std::string>;

// Where a folder has its own.
inline constexpr char kManifestName[] = "SHA256SUMS";

// In the format of sha256sum(1), sorted, so that it can check them too.
std::string FormatManifest(const Manifest& manifest);

// Of `text`; `path` is for messages. INVALID_ARGUMENT, with the line, for a
// line that sha256sum does not write, a path that leads out of the folder, or a
// file that is named twice; also if no file is named.
absl::StatusOr<Manifest> ParseManifest(absl::string_view text,
                                       const std::string& path);

// NOT_FOUND, with what to do, if there is none at `path`.
absl::StatusOr<Manifest> ReadManifest(const std::string& path);

// ALREADY_EXISTS if something is at `path`: what a folder is held against is
// not replaced unasked.
absl::Status MayWriteManifest(const std::string& path);

// Errors as MayWriteManifest; PERMISSION_DENIED if it cannot be written. A
// reader sees all of it or nothing.
absl::Status WriteManifest(const Manifest& manifest, const std::string& path);

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_CLI_MANIFEST_H_
