#ifndef PHALANX_WORKER_QUANTISE_CHECKPOINT_WRITER_H_
#define PHALANX_WORKER_QUANTISE_CHECKPOINT_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/quantise/output_plan.h"

namespace phalanx {

// No file of a checkpoint is longer, unless one tensor is.
inline constexpr int64_t kMaxOutputFileBytes = int64_t{8} << 30;

// The safetensors files of a checkpoint whose tensors are known before their
// bytes are: every byte has its place from the start, so threads may write in
// any order and the files come out the same.
class CheckpointWriter {
 public:
  // Where the tensors will lie: in files of at most `max_file_bytes`, in order.
  // Makes nothing yet.
  CheckpointWriter(std::span<const OutputTensor> tensors,
                   int64_t max_file_bytes);
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Of all files together, the index included.
  int64_t total_bytes() const;
  int64_t file_count() const { return std::ssize(files_); }

  // Makes the files in `folder` and reserves their bytes; one call.
  // RESOURCE_EXHAUSTED where the disk is full, FAILED_PRECONDITION for other
  // errors of the system; both name the file and its size.
  absl::Status Open(const std::string& folder);

  // Bytes `offset` ... of a tensor. Any thread, several at once; errors as of
  // Open.
  absl::Status Write(size_t tensor, int64_t offset, const void* data,
                     int64_t bytes);

  // Returns when all bytes are on the disk.
  absl::Status Flush();

 private:
  struct File {
    std::string name;
    std::string head;  // The header's length and JSON.
    int64_t bytes = 0;
    std::string path = {};
    int fd = -1;
  };
  struct Place {
    size_t file = 0;
    int64_t offset = 0;  // From the start of the file.
  };

  std::string IndexText(std::span<const OutputTensor> tensors) const;
  absl::Status WriteAt(const File& file, const void* data, int64_t bytes,
                       int64_t offset);

  std::vector<File> files_;
  std::vector<Place> places_;  // Of tensors.
  std::string index_;          // Empty for a single file.
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_QUANTISE_CHECKPOINT_WRITER_H_
