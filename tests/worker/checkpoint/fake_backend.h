#ifndef PHALANX_TESTS_WORKER_CHECKPOINT_FAKE_BACKEND_H_
#define PHALANX_TESTS_WORKER_CHECKPOINT_FAKE_BACKEND_H_

#include <array>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "kernels/backend.h"
#include "kernels/quantise.h"

namespace phalanx {

// Host memory, no operations: shows a test what the loader handed over, row by
// row. Packed weights are plain rows; quantised ones are a matrix's codes
// [rows, cols], a byte each whatever the format, then its scales
// [rows, groups].
class FakeBackend : public Backend {
 public:
  DType activation_dtype() const override { return DType::kBf16; }
  std::string kernel_family() const override { return "none"; }
  std::string instruction_set() const override { return "none"; }
  int threads() const override { return 1; }

  absl::StatusOr<Buffer> Allocate(int64_t bytes, MemoryComponent component,
                                  absl::string_view what) override {
    int64_t& held = held_[static_cast<size_t>(component)];
    if (capacity_bytes >= 0 && held + bytes > capacity_bytes)
      return absl::ResourceExhaustedError(
          absl::StrCat(what, " needs ", bytes, " bytes"));
    held += bytes;
    void* data = std::calloc(static_cast<size_t>(bytes) + 1, 1);
    return Buffer(data, bytes, [&held](void* freed, int64_t size) {
      std::free(freed);
      held -= size;
    });
  }

  int64_t allocated_bytes(MemoryComponent component) const override {
    return held_[static_cast<size_t>(component)];
  }

  void Upload(const void* host, Tensor device) override {
    CHECK(device.contiguous());
    std::memcpy(device.data, host, Bytes(device));
  }
  void Download(Tensor device, void* host) override {
    std::memcpy(host, device.data, Bytes(device));
  }

  absl::StatusOr<PackedWeight> AllocateWeight(const WeightShape& shape,
                                              MemoryComponent component,
                                              absl::string_view what) override {
    CHECK(shape.cols % 2 == 0);
    PackedWeight weight{shape, {}, 0};
    weight.matrix_bytes = shape.format == WeightFormat::kBf16
                              ? shape.rows * shape.cols * 2
                              : shape.rows * (shape.cols + 2 * Groups(shape));
    auto storage = Allocate(shape.count * weight.matrix_bytes, component, what);
    if (!storage.ok()) return storage.status();
    weight.storage = *std::move(storage);
    return weight;
  }

  void PackWeight(const uint16_t* host, int64_t index,
                  PackedWeight& weight) override {
    if (weight.format == WeightFormat::kBf16)
      return StorePacked(host, index, weight);
    std::vector<uint8_t> codes(static_cast<size_t>(weight.rows * weight.cols));
    std::vector<uint16_t> scales(
        static_cast<size_t>(weight.rows * Groups(weight)));
    for (int64_t row = 0; row < weight.rows; ++row)
      QuantiseWeightRow(host + row * weight.cols, weight.cols, weight.slices,
                        weight.format, codes.data() + row * weight.cols,
                        scales.data() + row * Groups(weight));
    PackCodes(codes.data(), scales.data(), index, weight);
  }
  void PackCodes(const uint8_t* codes, const uint16_t* scales, int64_t index,
                 PackedWeight& weight) override {
    CHECK(index >= 0 && index < weight.count);
    char* at =
        static_cast<char*>(weight.storage.data()) + index * weight.matrix_bytes;
    std::memcpy(at, codes, static_cast<size_t>(weight.rows * weight.cols));
    std::memcpy(at + weight.rows * weight.cols, scales,
                static_cast<size_t>(2 * weight.rows * Groups(weight)));
  }
  std::string packed_layout() const override { return "rows"; }
  void StorePacked(const void* packed, int64_t index,
                   PackedWeight& weight) override {
    CHECK(index >= 0 && index < weight.count);
    std::memcpy(
        static_cast<char*>(weight.storage.data()) + index * weight.matrix_bytes,
        packed, static_cast<size_t>(weight.matrix_bytes));
  }
  void ReadPacked(const PackedWeight& weight, int64_t index,
                  void* packed) override {
    CHECK(index >= 0 && index < weight.count);
    std::memcpy(packed,
                static_cast<const char*>(weight.storage.data()) +
                    index * weight.matrix_bytes,
                static_cast<size_t>(weight.matrix_bytes));
  }

  absl::Status Synchronize() override { return absl::OkStatus(); }
  Ops& ops() override { CheckFailed(__FILE__, __LINE__, "no operations"); }

  int64_t capacity_bytes = -1;  // Of each component; negative: no end.

 private:
  static int64_t Groups(const WeightShape& shape) {
    return GroupsOf(shape.cols, shape.slices).count;
  }
  static size_t Bytes(const Tensor& tensor) {
    return static_cast<size_t>(tensor.elements() * ElementBytes(tensor.dtype));
  }

  std::array<int64_t, kMemoryComponents> held_{};
};

}  // namespace phalanx

#endif  // PHALANX_TESTS_WORKER_CHECKPOINT_FAKE_BACKEND_H_
