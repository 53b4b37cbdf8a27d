#ifndef PHALANX_WORKER_EXPERTS_FILE_LOCK_H_
#define PHALANX_WORKER_EXPERTS_FILE_LOCK_H_

#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace phalanx {

// The sole right to what a file stands for, among all processes and threads of
// the host; given back when it dies, or its process. The file stays.
class FileLock {
 public:
  // Makes the file if need be, waits for whoever has it (the log says so).
  // FAILED_PRECONDITION names the path where that cannot be.
  static absl::StatusOr<FileLock> Acquire(const std::string& path);

  FileLock(FileLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

 private:
  explicit FileLock(int fd) : fd_(fd) {}

  int fd_;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_EXPERTS_FILE_LOCK_H_
