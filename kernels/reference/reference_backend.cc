#include "kernels/reference/reference_backend.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status.h"
#include "common/units.h"
#include "kernels/op_checks.h"
#include "kernels/quantise.h"
#include "kernels/reference/weight_rows.h"
#include "kernels/weight_limits.h"

namespace phalanx {
namespace {

constexpr int64_t kAlignment = 64;  // Bytes.

// The limit where none was set, so that sums of sizes never overflow.
constexpr int64_t kLargest = int64_t{1} << 62;

}  // namespace

ReferenceBackend::ReferenceBackend(const ReferenceBackendConfig& config)
    : config_(config) {}

// A Buffer that outlived its backend would give its memory back to nobody.
ReferenceBackend::~ReferenceBackend() { CHECK(held_bytes() == 0); }

int64_t ReferenceBackend::held_bytes() const {
  return std::accumulate(allocated_bytes_.begin(), allocated_bytes_.end(),
                         int64_t{0});
}

int64_t ReferenceBackend::allocated_bytes(MemoryComponent component) const {
  return allocated_bytes_[static_cast<int>(component)];
}

absl::StatusOr<Buffer> ReferenceBackend::Allocate(int64_t bytes,
                                                  MemoryComponent component,
                                                  absl::string_view what) {
  CHECK(bytes >= 0);
  const int64_t limit =
      config_.memory_limit_bytes > 0 ? config_.memory_limit_bytes : kLargest;
  const int64_t free_bytes = limit - held_bytes();
  void* data = nullptr;
  const int64_t padded = RoundUp(std::min(bytes, kLargest), kAlignment);
  if (padded <= free_bytes) {
    data = ::operator new (padded, std::align_val_t{kAlignment}, std::nothrow);
  }
  if (data == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat(what, " needs ", bytes, " bytes; ", held_bytes(),
                     " are held of at most ", limit));
  }
  std::memset(data, 0, padded);
  int64_t& held = allocated_bytes_[static_cast<int>(component)];
  held += padded;
  return Buffer(data, padded, [&held](void* memory, int64_t size) {
    held -= size;
    ::operator delete (memory, std::align_val_t{kAlignment});
  });
}

void ReferenceBackend::Upload(const void* host, Tensor device) {
  CHECK(device.contiguous());
  std::memcpy(device.data, host,
              device.elements() * ElementBytes(device.dtype));
}

void ReferenceBackend::Download(Tensor device, void* host) {
  CHECK(device.contiguous());
  std::memcpy(host, device.data,
              device.elements() * ElementBytes(device.dtype));
}

absl::StatusOr<PackedWeight> ReferenceBackend::AllocateWeight(
    const WeightShape& shape, MemoryComponent component,
    absl::string_view what) {
  CheckWeightShape(shape);
  PackedWeight weight{shape, {}, 0};
  weight.matrix_bytes = RowsMatrixBytes(shape);
  ASSIGN_OR_RETURN(weight.storage, Allocate(shape.count * weight.matrix_bytes,
                                            component, what));
  return weight;
}

void ReferenceBackend::PackWeight(const uint16_t* host, int64_t index,
                                  PackedWeight& weight) {
  CheckPackWeight(host, index, weight);
  if (weight.format != WeightFormat::kBf16) {
    for (int64_t row = 0; row < weight.rows; ++row) {
      QuantiseWeightRow(host + row * weight.cols, weight.cols, weight.slices,
                        weight.format, CodesRow(weight, index, row),
                        ScalesRow(weight, index, row));
    }
    return;
  }
  std::memcpy(
      static_cast<char*>(weight.storage.data()) + index * weight.matrix_bytes,
      host, weight.matrix_bytes);
}

void ReferenceBackend::PackCodes(const uint8_t* codes, const uint16_t* scales,
                                 int64_t index, PackedWeight& weight) {
  CheckPackCodes(codes, scales, index, weight);
  const int64_t groups = GroupsOf(weight.cols, weight.slices).count;
  std::memcpy(CodesRow(weight, index, 0), codes, weight.rows * weight.cols);
  std::memcpy(ScalesRow(weight, index, 0), scales,
              weight.rows * groups * sizeof(uint16_t));
}

void ReferenceBackend::StorePacked(const void* packed, int64_t index,
                                   PackedWeight& weight) {
  CHECK(index >= 0 && index < weight.count);
  std::memcpy(
      static_cast<char*>(weight.storage.data()) + index * weight.matrix_bytes,
      packed, weight.matrix_bytes);
}

void ReferenceBackend::ReadPacked(const PackedWeight& weight, int64_t index,
                                  void* packed) {
  CHECK(index >= 0 && index < weight.count);
  std::memcpy(packed,
              static_cast<const char*>(weight.storage.data()) +
                  index * weight.matrix_bytes,
              weight.matrix_bytes);
}

}  // namespace phalanx
