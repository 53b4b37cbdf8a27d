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

namespace phalanx {

// Host memory, packed weights stored as plain rows, no operations: shows a test
// what the loader handed over, row by row.
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
    weight.matrix_bytes = shape.rows * shape.cols * 2;
    auto storage = Allocate(shape.count * weight.matrix_bytes, component, what);
    if (!storage.ok()) return storage.status();
    weight.storage = *std::move(storage);
    return weight;
  }

  void PackWeight(const uint16_t* host, int64_t index,
                  PackedWeight& weight) override {
    CHECK(index >= 0 && index < weight.count);
    std::memcpy(
        static_cast<char*>(weight.storage.data()) + index * weight.matrix_bytes,
        host, static_cast<size_t>(weight.matrix_bytes));
  }
  void PackCodes(const uint8_t*, const uint16_t*, int64_t,
                 PackedWeight&) override {
    CheckFailed(__FILE__, __LINE__, "no codes");
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
  static size_t Bytes(const Tensor& tensor) {
    return static_cast<size_t>(tensor.elements() * ElementBytes(tensor.dtype));
  }

  std::array<int64_t, kMemoryComponents> held_{};
};

}  // namespace phalanx

#endif  // PHALANX_TESTS_WORKER_CHECKPOINT_FAKE_BACKEND_H_
