#ifndef PHALANX_GATEWAY_CLI_MODEL_FILES_H_
#define PHALANX_GATEWAY_CLI_MODEL_FILES_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "gateway/cli/file_digest.h"
#include "gateway/cli/manifest.h"

namespace phalanx {

// The files of a model's folder against its manifest. Each list is sorted.
struct FilesReport {
  std::vector<std::string> differs;
  std::vector<std::string> missing;
  std::vector<std::string> extra;
  std::vector<std::string> unreadable;  // "model.safetensors: why"
  size_t files = 0;                     // That the manifest names.
  ReadProgress read;

  bool ok() const {
    return differs.empty() && missing.empty() && extra.empty() &&
           unreadable.empty();
  }
};

using OnProgress = std::function<void(const ReadProgress&)>;

// The regular files in `folder` and below it, sorted, as paths from it. Links
// to files count as files. What begins with a dot (a download's own notes) is
// left out, and so is the manifest. NOT_FOUND if there is no such folder.
absl::StatusOr<std::vector<std::string>> ListFiles(
    const std::string& folder, const std::string& manifest_path);

// Every byte of every file. Errors are those of the manifest and the folder;
// what is wrong with a file is in the report.
absl::StatusOr<FilesReport> CheckFiles(const std::string& folder,
                                       const std::string& manifest_path,
                                       const OnProgress& on_progress);

// Makes the manifest of what is there; the report has no lists. NOT_FOUND if
// there is no file; errors also of a file that cannot be read.
absl::StatusOr<FilesReport> MakeManifest(const std::string& folder,
                                         const std::string& manifest_path,
                                         const OnProgress& on_progress);

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_CLI_MODEL_FILES_H_
