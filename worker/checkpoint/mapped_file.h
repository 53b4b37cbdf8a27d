#ifndef PHALANX_WORKER_CHECKPOINT_MAPPED_FILE_H_
#define PHALANX_WORKER_CHECKPOINT_MAPPED_FILE_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace phalanx {

// A file of the checkpoint, mapped read-only; unmapped when it dies. Reading a
// file that somebody shortens meanwhile raises SIGBUS: a checkpoint must stay
// as it is while it is loaded. Any thread.
class MappedFile {
 public:
  // NOT_FOUND where there is none, INVALID_ARGUMENT for what is not a regular
  // file, RESOURCE_EXHAUSTED where it cannot be mapped; all name the path.
  static absl::StatusOr<std::unique_ptr<MappedFile>> Open(
      const std::string& path);

  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }

  // Tells the system that these bytes of the mapping are done with, so that
  // loading does not fill memory with pages nobody reads again. A hint.
  static void DropPages(std::span<const std::byte> bytes);
  // That they will be read soon: the system may begin to fetch them. A hint.
  static void WillNeedPages(std::span<const std::byte> bytes);

 private:
  MappedFile(std::string path, std::span<const std::byte> bytes)
      : path_(std::move(path)), bytes_(bytes) {}

  std::string path_;
  std::span<const std::byte> bytes_;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_CHECKPOINT_MAPPED_FILE_H_
