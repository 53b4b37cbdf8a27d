#include "gateway/cli/manifest.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/status.h"
#include "common/units.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

constexpr size_t kHexDigits = 64;
// A hundred thousand files with long names.
constexpr int64_t kMaxManifestBytes = 32 * kMiB;

// sha256sum puts a backslash before a line whose name it had to escape.
bool NeedsEscape(absl::string_view name) {
  return name.find_first_of("\\\n\r") != absl::string_view::npos;
}

std::string Escaped(const std::string& name) {
  return absl::StrReplaceAll(name,
                             {{"\\", "\\\\"}, {"\n", "\\n"}, {"\r", "\\r"}});
}

std::string Unescaped(absl::string_view name) {
  return absl::StrReplaceAll(name,
                             {{"\\\\", "\\"}, {"\\n", "\n"}, {"\\r", "\r"}});
}

// "model.safetensors", "./a/b": a path that stays in the folder, plainly
// spelt; "" for one that does not.
std::string PathWithin(const std::string& name) {
  const fs::path path = fs::path(name).lexically_normal();
  if (path.is_absolute() || name.empty() || path == "." ||
      *path.begin() == ".." || !path.has_filename())
    return "";
  return path.string();
}

absl::Status ParseLine(absl::string_view line, Manifest& manifest) {
  const bool escaped = absl::ConsumePrefix(&line, "\\");
  // The digits, a blank, and a blank or the star of binary mode.
  if (line.size() < kHexDigits + 3 || line[kHexDigits] != ' ' ||
      (line[kHexDigits + 1] != ' ' && line[kHexDigits + 1] != '*') ||
      !std::all_of(line.begin(), line.begin() + kHexDigits,
                   absl::ascii_isxdigit))
    return absl::InvalidArgumentError(
        "must be 64 hexadecimal digits, two blanks and a file's name");
  const absl::string_view spelt = line.substr(kHexDigits + 2);
  const std::string name = escaped ? Unescaped(spelt) : std::string(spelt);
  const std::string path = PathWithin(name);
  if (path.empty())
    return absl::InvalidArgumentError(absl::StrCat(
        "names ", absl::CHexEscape(name), ", which is no file of the folder"));
  if (!manifest.emplace(path, absl::AsciiStrToLower(line.substr(0, kHexDigits)))
           .second)
    return absl::InvalidArgumentError(
        absl::StrCat("names ", absl::CHexEscape(path), " once more"));
  return absl::OkStatus();
}

}  // namespace

std::string FormatManifest(const Manifest& manifest) {
  std::string text;
  for (const auto& [name, digest] : manifest)
    absl::StrAppend(&text, NeedsEscape(name) ? "\\" : "", digest, "  ",
                    Escaped(name), "\n");
  return text;
}

absl::StatusOr<Manifest> ParseManifest(absl::string_view text,
                                       const std::string& path) {
  Manifest manifest;
  int64_t number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    absl::ConsumeSuffix(&line, "\r");
    if (line.empty()) continue;
    if (const absl::Status status = ParseLine(line, manifest); !status.ok())
      return absl::InvalidArgumentError(
          absl::StrCat(path, " line ", number, ": ", status.message()));
  }
  if (manifest.empty())
    return absl::InvalidArgumentError(absl::StrCat(path, " names no file"));
  return manifest;
}

absl::StatusOr<Manifest> ReadManifest(const std::string& path) {
  std::error_code error;
  if (!fs::exists(path, error))
    return absl::NotFoundError(
        absl::StrCat(path,
                     " is not there; give --manifest FILE, or make it with "
                     "--write-manifest where the files are known to be right"));
  const auto size = fs::file_size(path, error);
  if (!error && size > kMaxManifestBytes)
    return absl::InvalidArgumentError(absl::StrCat(
        path, " has ", size, " bytes; at most ", kMaxManifestBytes));
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (error || !in || !(text << in.rdbuf()))
    return absl::InvalidArgumentError(
        absl::StrCat(path, " cannot be read, or is empty"));
  return ParseManifest(text.str(), path);
}

absl::Status MayWriteManifest(const std::string& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrCat(
      path, " is there already; remove it first, or give --manifest FILE"));
}

absl::Status WriteManifest(const Manifest& manifest, const std::string& path) {
  RETURN_IF_ERROR(MayWriteManifest(path));
  const std::string fresh = absl::StrCat(path, ".", getpid());
  std::ofstream out(fresh, std::ios::binary);
  out << FormatManifest(manifest);
  out.close();
  if (out && rename(fresh.c_str(), path.c_str()) == 0) return absl::OkStatus();
  const int error = errno;
  unlink(fresh.c_str());
  return absl::PermissionDeniedError(
      absl::StrCat(path, " cannot be written: ", std::strerror(error)));
}

}  // namespace phalanx
