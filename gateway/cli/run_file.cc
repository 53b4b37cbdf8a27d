#include "gateway/cli/run_file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "nlohmann/json.hpp"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

constexpr char kSocketsPrefix[] = "serve-";

bool Alive(int64_t pid) {
  return pid > 0 && (kill(static_cast<pid_t>(pid), 0) == 0 || errno == EPERM);
}

// The sockets' folder and "/rank15.sock" must fit in sockaddr_un.
constexpr size_t kMaxSocketFolderBytes = 107 - sizeof("/rank15.sock") + 1;

// $XDG_RUNTIME_DIR if it is there, else the folder for temporary files.
absl::StatusOr<std::string> RuntimeFolderPath() {
  std::error_code error;
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && fs::is_directory(runtime, error))
    return absl::StrCat(runtime, "/phalanx");
  const fs::path temporary = fs::temp_directory_path(error);
  if (error)
    return absl::NotFoundError(
        absl::StrCat("no folder for temporary files: TMPDIR must name one (",
                     error.message(), ")"));
  return absl::StrCat(temporary.string(), "/phalanx-", getuid());
}

void RemoveFoldersOfTheDead(const std::string& folder) {
  std::error_code ignored;
  for (fs::directory_iterator entry(folder, ignored), end; entry != end;
       entry.increment(ignored)) {
    const std::string name = entry->path().filename().string();
    int64_t pid = 0;
    // One with this process's own id is of a dead namesake.
    if (name.rfind(kSocketsPrefix, 0) == 0 &&
        absl::SimpleAtoi(name.substr(strlen(kSocketsPrefix)), &pid) &&
        (!Alive(pid) || pid == getpid()))
      fs::remove_all(entry->path(), ignored);
  }
}

absl::StatusOr<std::string> RunFilePath() {
  ASSIGN_OR_RETURN(const std::string folder, RuntimeFolder());
  return folder + "/serve.json";
}

}  // namespace

absl::StatusOr<std::string> RuntimeFolder() {
  ASSIGN_OR_RETURN(const std::string folder, RuntimeFolderPath());
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return absl::PermissionDeniedError(
        absl::StrCat(folder, " cannot be made: ", strerror(errno)));
  struct stat info;
  if (lstat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) ||
      info.st_uid != getuid())
    return absl::PermissionDeniedError(
        absl::StrCat(folder, " must be a folder of this user"));
  chmod(folder.c_str(), 0700);
  return folder;
}

absl::Status WriteRunFile(const RunFile& run) {
  ASSIGN_OR_RETURN(const std::string path, RunFilePath());
  const std::string fresh = absl::StrCat(path, ".", getpid());
  const nlohmann::json content = {{"address", run.address},
                                  {"admin_address", run.admin_address},
                                  {"metrics_address", run.metrics_address},
                                  {"pid", run.pid}};
  std::ofstream out(fresh);
  out << content.dump() << "\n";
  out.close();
  if (!out || rename(fresh.c_str(), path.c_str()) != 0) {
    const int error = errno;
    unlink(fresh.c_str());
    return absl::PermissionDeniedError(
        absl::StrCat(path, " cannot be written: ", strerror(error)));
  }
  return absl::OkStatus();
}

absl::StatusOr<RunFile> ReadRunFile() {
  ASSIGN_OR_RETURN(const std::string path, RunFilePath());
  std::ifstream in(path);
  const nlohmann::json content =
      nlohmann::json::parse(in, nullptr, /*allow_exceptions=*/false);
  RunFile run;
  try {
    content.at("address").get_to(run.address);
    content.at("admin_address").get_to(run.admin_address);
    content.at("metrics_address").get_to(run.metrics_address);
    content.at("pid").get_to(run.pid);
  } catch (const nlohmann::json::exception&) {
    run = {};  // Absent, or not ours.
  }
  if (!Alive(run.pid))
    return absl::NotFoundError(
        "no `phalanx serve` of this user is running; start one, or give "
        "--address");
  return run;
}

void RemoveRunFile() {
  const auto run = ReadRunFile();
  const auto path = RunFilePath();
  if (run.ok() && path.ok() && run->pid == getpid()) unlink(path->c_str());
}

absl::StatusOr<std::string> ResumeKeyFile() {
  constexpr size_t kKeyBytes = 32;
  ASSIGN_OR_RETURN(const std::string folder, RuntimeFolder());
  const std::string path = folder + "/resume.key";
  // Whole before it has its name: another serve may look meanwhile.
  std::string temporary = path + ".XXXXXX";
  std::string bytes(kKeyBytes, '\0');
  const int fd = mkostemp(temporary.data(), O_CLOEXEC);
  const bool written =
      fd >= 0 && getentropy(bytes.data(), bytes.size()) == 0 &&
      write(fd, bytes.data(), bytes.size()) == std::ssize(bytes) &&
      (link(temporary.c_str(), path.c_str()) == 0 || errno == EEXIST);
  const int why = errno;
  if (fd >= 0) close(fd);
  unlink(temporary.c_str());
  if (written) return path;
  return absl::FailedPreconditionError(
      absl::StrCat(path, " cannot be made: ", strerror(why)));
}

absl::StatusOr<std::string> MakeSocketFolder() {
  ASSIGN_OR_RETURN(const std::string folder, RuntimeFolder());
  RemoveFoldersOfTheDead(folder);
  const std::string sockets =
      absl::StrCat(folder, "/", kSocketsPrefix, getpid());
  if (sockets.size() > kMaxSocketFolderBytes)
    return absl::InvalidArgumentError(absl::StrCat(
        sockets, " is ", sockets.size(), " bytes long; must be at most ",
        kMaxSocketFolderBytes,
        " for sockets to fit: give a shorter XDG_RUNTIME_DIR or TMPDIR"));
  if (mkdir(sockets.c_str(), 0700) != 0)
    return absl::PermissionDeniedError(
        absl::StrCat(sockets, " cannot be made: ", strerror(errno)));
  return sockets;
}

}  // namespace phalanx
