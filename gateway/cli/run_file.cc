#include "gateway/cli/run_file.h"

#include <errno.h>
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

absl::StatusOr<std::string> RunFilePath() {
  ASSIGN_OR_RETURN(const std::string folder, RuntimeFolder());
  return folder + "/serve.json";
}

}  // namespace

absl::StatusOr<std::string> RuntimeFolder() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  const std::string folder =
      runtime != nullptr && *runtime != '\0'
          ? absl::StrCat(runtime, "/phalanx")
          : absl::StrCat(fs::temp_directory_path().string(), "/phalanx-",
                         getuid());
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
                                  {"pid", run.pid}};
  std::ofstream(fresh) << content.dump() << "\n";
  if (rename(fresh.c_str(), path.c_str()) != 0)
    return absl::PermissionDeniedError(
        absl::StrCat(path, " cannot be written: ", strerror(errno)));
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

absl::StatusOr<std::string> MakeSocketFolder() {
  ASSIGN_OR_RETURN(const std::string folder, RuntimeFolder());
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    int64_t pid = 0;
    if (name.rfind(kSocketsPrefix, 0) == 0 &&
        absl::SimpleAtoi(name.substr(strlen(kSocketsPrefix)), &pid) &&
        !Alive(pid))
      fs::remove_all(entry.path(), ignored);
  }
  const std::string sockets =
      absl::StrCat(folder, "/", kSocketsPrefix, getpid());
  if (mkdir(sockets.c_str(), 0700) != 0)
    return absl::PermissionDeniedError(
        absl::StrCat(sockets, " cannot be made: ", strerror(errno)));
  return sockets;
}

}  // namespace phalanx
