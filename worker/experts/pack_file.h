#ifndef PHALANX_WORKER_EXPERTS_PACK_FILE_H_
#define PHALANX_WORKER_EXPERTS_PACK_FILE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "worker/checkpoint/mapped_file.h"
#include "worker/experts/pack_header.h"

namespace phalanx {

// Fills `out`, PackKey::expert_bytes() long, with all parts of an expert; its
// padding is zero and stays so.
// `thread` counts from 0; several run at once, each with a number of its own.
using PackExpert = std::function<void(int thread, int layer, int expert,
                                      std::span<std::byte> out)>;

// A file of packed experts, mapped read-only: one copy for all processes of the
// host. Somebody who shortens it meanwhile raises SIGBUS. Any thread.
class PackFile {
 public:
  // The file of `key` in the folder `dir`, made if it is not there or not
  // right (then the log says so). However many processes ask at once, one makes
  // it, with `threads` threads, and the others wait for it. A file that is
  // there is whole: it gets its name when all its bytes are on the disk, and a
  // maker that dies leaves only a temporary, which the next one overwrites.
  //   RESOURCE_EXHAUSTED   the disk is full: path, bytes needed, bytes free
  //   FAILED_PRECONDITION  the folder or a file in it cannot be written
  static absl::StatusOr<std::unique_ptr<PackFile>> OpenOrMake(
      const std::string& dir, const PackKey& key, int threads,
      const PackExpert& pack);

  const std::byte* gate_up(int layer, int expert, int64_t part) const;
  const std::byte* down(int layer, int expert, int64_t part) const;
  // A hint: this part of an expert will be read soon.
  void WillNeed(int layer, int expert, int64_t part) const;

  const std::string& path() const { return file_->path(); }
  int64_t bytes() const { return static_cast<int64_t>(file_->bytes().size()); }

 private:
  PackFile(PackKey key, std::unique_ptr<MappedFile> file)
      : key_(std::move(key)), file_(std::move(file)) {}

  // NOT_FOUND where there is none, DATA_LOSS where it is something else.
  static absl::StatusOr<std::unique_ptr<PackFile>> Open(const std::string& path,
                                                        const PackKey& key);

  const PackKey key_;
  const std::unique_ptr<MappedFile> file_;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_EXPERTS_PACK_FILE_H_
