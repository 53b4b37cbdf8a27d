#include "worker/experts/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/log.h"

namespace phalanx {
namespace {

int Flock(int fd, int operation) {
  int result = 0;
  do {
    result = flock(fd, operation);
  } while (result != 0 && errno == EINTR);
  return result;
}

}  // namespace

absl::StatusOr<FileLock> FileLock::Acquire(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0)
    return absl::FailedPreconditionError(
        absl::StrCat("cannot make ", path, ": ", strerror(errno)));
  FileLock lock(fd);
  int result = Flock(fd, LOCK_EX | LOCK_NB);
  if (result != 0 && errno == EWOULDBLOCK) {
    LogInfo("experts", "waiting for another process", {{"path", path}});
    result = Flock(fd, LOCK_EX);
  }
  if (result != 0)
    return absl::FailedPreconditionError(
        absl::StrCat("cannot lock ", path, ": ", strerror(errno)));
  return lock;
}

FileLock::~FileLock() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace phalanx
