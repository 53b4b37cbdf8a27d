#ifndef PHALANX_WORKER_CHECKPOINT_SAFETENSORS_H_
#define PHALANX_WORKER_CHECKPOINT_SAFETENSORS_H_

// The safetensors container: eight bytes of header length (little-endian), a
// JSON header {name: {dtype, shape, data_offsets}}, then the data that the
// offsets count from.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/checkpoint/mapped_file.h"

namespace phalanx {

inline constexpr uint64_t kMaxSafetensorsHeaderBytes = uint64_t{100} << 20;
inline constexpr size_t kMaxSafetensorsTensors = size_t{1} << 20;
inline constexpr size_t kMaxSafetensorsRank = 8;
inline constexpr size_t kMaxTensorNameBytes = 512;

// The element types the container knows; the loader reads three of them.
enum class StoredType : uint8_t {
  kBool,
  kU8,
  kI8,
  kF8E4M3,
  kF8E5M2,
  kF8E8M0,
  kI16,
  kU16,
  kF16,
  kBf16,
  kI32,
  kU32,
  kF32,
  kI64,
  kU64,
  kF64,
  kC64,
  kF4,
  kF6E2M3,
  kF6E3M2,
};

// As the header spells it: "BF16".
absl::string_view StoredTypeName(StoredType type);

// One tensor of a file. `data` is a view of the file's bytes, of any alignment.
struct StoredTensor {
  std::string name;
  StoredType type = StoredType::kBf16;
  std::vector<int64_t> shape;
  std::span<const std::byte> data;
};

// Lists the tensors of a whole file's bytes, in the order of their data.
// Whatever the bytes, it returns: DATA_LOSS for what is truncated or
// contradicts itself, INVALID_ARGUMENT for what passes a limit or is of an
// unknown type; the message names the file, the tensor, the value, the limit.
absl::StatusOr<std::vector<StoredTensor>> ParseSafetensors(
    std::span<const std::byte> bytes, absl::string_view file_name);

// A mapped file and what it holds. Immutable; any thread.
class SafetensorsFile {
 public:
  static absl::StatusOr<std::unique_ptr<SafetensorsFile>> Open(
      const std::string& path);

  const std::string& path() const { return file_->path(); }
  int64_t bytes() const { return static_cast<int64_t>(file_->bytes().size()); }
  // The header's length and JSON, as the file has them.
  std::span<const std::byte> header() const;
  const std::vector<StoredTensor>& tensors() const { return tensors_; }

 private:
  SafetensorsFile(std::unique_ptr<MappedFile> file,
                  std::vector<StoredTensor> tensors)
      : file_(std::move(file)), tensors_(std::move(tensors)) {}

  std::unique_ptr<MappedFile> file_;
  std::vector<StoredTensor> tensors_;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_CHECKPOINT_SAFETENSORS_H_
