#include "worker/quantise/new_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "worker/quantise/disk_error.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

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
    return DiskError("make", temporary_, errno);
  // Through no link: what it leads to would be emptied.
  fd_ =
      open(temporary_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd_ < 0) return DiskError("open", temporary_, errno);
  if (flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    close(std::exchange(fd_, -1));
    return absl::FailedPreconditionError(
        absl::StrCat("another process is making ", path_));
  }
  if (absl::Status ours = CheckOurs(); !ours.ok()) {
    close(std::exchange(fd_, -1));
    return ours;
  }
  return Empty();
}

absl::Status NewFolder::CheckOurs() const {
  struct stat locked, named;
  if (fstat(fd_, &locked) != 0 || lstat(temporary_.c_str(), &named) != 0)
    return DiskError("look at", temporary_, errno);
  // Whoever had the lock a moment ago has renamed or removed it.
  if (locked.st_dev != named.st_dev || locked.st_ino != named.st_ino)
    return absl::FailedPreconditionError(
        absl::StrCat("another process is making ", path_));
  if (locked.st_uid != geteuid())
    return absl::FailedPreconditionError(
        absl::StrCat(temporary_, " belongs to user ", locked.st_uid,
                     "; must be ours, of user ", geteuid()));
  return absl::OkStatus();
}

absl::Status NewFolder::Empty() {
  std::error_code error;
  fs::directory_iterator left(temporary_, error);
  for (; !error && left != fs::directory_iterator(); left.increment(error)) {
    std::error_code kept;
    fs::remove_all(left->path(), kept);
    if (kept) return DiskError("remove", left->path().string(), kept.value());
  }
  return error ? DiskError("list", temporary_, error.value())
               : absl::OkStatus();
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

absl::Status NewFolder::FlushFiles() const {
  std::error_code error;
  fs::directory_iterator file(temporary_, error);
  for (; !error && file != fs::directory_iterator(); file.increment(error)) {
    const std::string path = file->path().string();
    const int fd = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    const bool flushed = fd >= 0 && fsync(fd) == 0;
    const int cause = errno;
    if (fd >= 0) close(fd);
    if (!flushed) return DiskError("flush", path, cause);
  }
  return error ? DiskError("list", temporary_, error.value())
               : absl::OkStatus();
}

absl::Status NewFolder::Commit() {
  RETURN_IF_ERROR(FlushFiles());
  if (fsync(fd_) != 0) return DiskError("flush", temporary_, errno);
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0)
    return DiskError("rename to its name", temporary_, errno);
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
