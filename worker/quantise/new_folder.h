#ifndef PHALANX_WORKER_QUANTISE_NEW_FOLDER_H_
#define PHALANX_WORKER_QUANTISE_NEW_FOLDER_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace phalanx {

// A folder that appears whole or not at all: filled under another name beside
// its own, then renamed. What a killed process left of an earlier try is
// removed. One thread.
class NewFolder {
 public:
  // ALREADY_EXISTS where something has that name, FAILED_PRECONDITION where the
  // folder cannot be made, another process is making it, or a link or another
  // user's folder is where files would go; all name it.
  static absl::StatusOr<std::unique_ptr<NewFolder>> Create(
      const std::string& path);

  // Removes what was not committed.
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  // Where files go until then.
  const std::string& temporary() const { return temporary_; }

  // Bytes that its disk has room for.
  int64_t free_bytes() const;

  // Brings its files to the disk, all of them before it has its name: whatever
  // happens then, the name stands for the whole. Errors of the system as
  // DiskError; it has no name then.
  absl::Status Commit();

 private:
  NewFolder(std::string path, std::string temporary)
      : path_(std::move(path)), temporary_(std::move(temporary)) {}
  absl::Status Lock();
  // Whether the temporary that is locked still has its name, and is our user's.
  absl::Status CheckOurs() const;
  absl::Status Empty();
  absl::Status FlushFiles() const;

  const std::string path_;
  const std::string temporary_;
  int fd_ = -1;  // Of the temporary, locked.
  bool committed_ = false;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_QUANTISE_NEW_FOLDER_H_
