#include "worker/quantise/new_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

absl::Status Failed(absl::string_view doing, const std::string& path) {
  return absl::FailedPreconditionError(
      absl::StrCat("cannot ", doing, " ", path, ": ", strerror(errno)));
}

// "a/b/" and "a/b" are one folder.
fs::path WithoutSlash(const std::string& path) {
  const fs::path given(path);
  return given.has_filename() ? given : given.parent_path();
}

}  // namespace

absl::StatusOr<std::unique_ptr<NewFolder>> NewFolder::Create(
    const std::string& path) {
  const fs::path wanted = WithoutSlash(path);
  if (wanted.empty())
    return absl::InvalidArgumentError("the folder to make has no name");
  std::error_code ignored;
  if (fs::exists(fs::symlink_status(wanted, ignored)))
    return absl::AlreadyExistsError(
        absl::StrCat(wanted.string(),
                     " is there already; nothing is "
                     "overwritten: give another folder"));
  const fs::path temporary =
      wanted.parent_path() /
      absl::StrCat(".", wanted.filename().string(), ".unfinished");
  std::unique_ptr<NewFolder> folder(
      new NewFolder(wanted.string(), temporary.string()));
  RETURN_IF_ERROR(folder->Lock());
  return folder;
}

absl::Status NewFolder::Lock() {
  if (mkdir(temporary_.c_str(), 0777) != 0 && errno != EEXIST)
    return Failed("make", temporary_);
  fd_ = open(temporary_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd_ < 0) return Failed("open", temporary_);
  if (flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    close(std::exchange(fd_, -1));
    return absl::FailedPreconditionError(
        absl::StrCat("another process is making ", path_));
  }
  std::error_code error;
  for (const fs::directory_entry& left :
       fs::directory_iterator(temporary_, error)) {
    fs::remove_all(left, error);
    if (error)
      return absl::FailedPreconditionError(absl::StrCat(
          "cannot remove ", left.path().string(), ": ", error.message()));
  }
  return absl::OkStatus();
}

NewFolder::~NewFolder() {
  if (fd_ < 0) return;
  std::error_code ignored;
  if (!committed_) fs::remove_all(temporary_, ignored);
  close(fd_);
}

int64_t NewFolder::free_bytes() const {
  struct statvfs info;
  if (fstatvfs(fd_, &info) != 0) return std::numeric_limits<int64_t>::max();
  return static_cast<int64_t>(info.f_bavail) *
         static_cast<int64_t>(info.f_frsize);
}

absl::Status NewFolder::Commit() {
  if (fsync(fd_) != 0) return Failed("flush", temporary_);
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0)
    return Failed("rename to its name", temporary_);
  committed_ = true;
  // So that the name survives a power cut too; no reason to fail.
  const fs::path parent = fs::path(path_).parent_path();
  const int fd = open(parent.empty() ? "." : parent.c_str(),
                      O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0) {
    fsync(fd);
    close(fd);
  }
  return absl::OkStatus();
}

}  // namespace phalanx
