#include "gateway/cli/model_files.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/status.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

bool IsHidden(const fs::path& path) {
  return path.filename().string().front() == '.';
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ListFiles(
    const std::string& folder, const std::string& manifest_path) {
  std::error_code error;
  if (!fs::is_directory(folder, error))
    return absl::NotFoundError(
        absl::StrCat("--model is ", folder, "; no such folder"));
  std::vector<std::string> names;
  fs::recursive_directory_iterator entry(folder, error);
  for (const fs::recursive_directory_iterator end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;
    if (IsHidden(entry->path()))
      entry.disable_recursion_pending();
    else if (entry->is_regular_file(ignored) &&
             !fs::equivalent(entry->path(), manifest_path, ignored))
      names.push_back(entry->path().lexically_relative(folder).string());
  }
  if (error)
    return absl::PermissionDeniedError(absl::StrCat(
        "--model is ", folder, "; it cannot be listed: ", error.message()));
  std::sort(names.begin(), names.end());
  return names;
}

absl::StatusOr<FilesReport> CheckFiles(const std::string& folder,
                                       const std::string& manifest_path,
                                       const OnProgress& on_progress) {
  ASSIGN_OR_RETURN(const std::vector<std::string> present,
                   ListFiles(folder, manifest_path));
  ASSIGN_OR_RETURN(const Manifest manifest, ReadManifest(manifest_path));
  FilesReport report;
  report.files = manifest.size();
  std::vector<std::string> named;
  for (const auto& [name, digest] : manifest) {
    std::error_code error;
    const bool there = fs::is_regular_file(fs::path(folder) / name, error);
    (there ? named : report.missing).push_back(name);
  }
  for (const std::string& name : present)
    if (!manifest.contains(name)) report.extra.push_back(name);
  const FileDigests found = DigestFiles(folder, named, on_progress);
  for (const auto& [name, digest] : found.digests) {
    if (!digest.ok())
      report.unreadable.push_back(
          absl::StrCat(name, ": ", digest.status().message()));
    else if (*digest != manifest.at(name))
      report.differs.push_back(name);
  }
  report.read = found.read;
  return report;
}

absl::StatusOr<FilesReport> MakeManifest(const std::string& folder,
                                         const std::string& manifest_path,
                                         const OnProgress& on_progress) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names,
                   ListFiles(folder, manifest_path));
  RETURN_IF_ERROR(MayWriteManifest(manifest_path));
  if (names.empty())
    return absl::NotFoundError(
        absl::StrCat("--model is ", folder, "; there is no file in it"));
  const FileDigests found = DigestFiles(folder, names, on_progress);
  Manifest manifest;
  for (const auto& [name, digest] : found.digests) {
    if (!digest.ok())
      return absl::Status(
          digest.status().code(),
          absl::StrCat(folder, "/", name, " ", digest.status().message()));
    manifest.emplace(name, *digest);
  }
  RETURN_IF_ERROR(WriteManifest(manifest, manifest_path));
  FilesReport report;
  report.files = manifest.size();
  report.read = found.read;
  return report;
}

}  // namespace phalanx
