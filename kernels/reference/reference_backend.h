#ifndef PHALANX_KERNELS_REFERENCE_REFERENCE_BACKEND_H_
#define PHALANX_KERNELS_REFERENCE_REFERENCE_BACKEND_H_

#include <array>
#include <cstdint>
#include <string>

#include "kernels/backend.h"
#include "kernels/reference/reference_ops.h"

namespace phalanx {

struct ReferenceBackendConfig {
  // Of all Buffers together; 0: none. Beyond it Allocate answers
  // RESOURCE_EXHAUSTED.
  int64_t memory_limit_bytes = 0;
};

// The obvious twin of every backend and the oracle of their tests: activations
// and caches f32, sums and functions in double, weights plain row-major (bf16,
// or codes and scales; weight_rows.h), no threads. Never served. Made by a test or a tool; one thread at a time.
class ReferenceBackend final : public Backend {
 public:
  explicit ReferenceBackend(const ReferenceBackendConfig& config = {});
  ~ReferenceBackend() override;
  ReferenceBackend(const ReferenceBackend&) = delete;
  ReferenceBackend& operator=(const ReferenceBackend&) = delete;

  DType activation_dtype() const override { return DType::kF32; }
  std::string kernel_family() const override { return "reference-1"; }
  std::string instruction_set() const override { return "double"; }
  int threads() const override { return 1; }

  absl::StatusOr<Buffer> Allocate(int64_t bytes, MemoryComponent component,
                                  absl::string_view what) override;
  int64_t allocated_bytes(MemoryComponent component) const override;
  void Upload(const void* host, Tensor device) override;
  void Download(Tensor device, void* host) override;
  absl::StatusOr<PackedWeight> AllocateWeight(const WeightShape& shape,
                                              MemoryComponent component,
                                              absl::string_view what) override;
  void PackWeight(const uint16_t* host, int64_t index,
                  PackedWeight& weight) override;
  void PackCodes(const uint8_t* codes, const uint16_t* scales, int64_t index,
                 PackedWeight& weight) override;
  std::string packed_layout() const override { return "rows-1"; }
  void StorePacked(const void* packed, int64_t index,
                   PackedWeight& weight) override;
  void ReadPacked(const PackedWeight& weight, int64_t index,
                  void* packed) override;
  absl::Status Synchronize() override { return absl::OkStatus(); }
  Ops& ops() override { return ops_; }

 private:
  int64_t held_bytes() const;

  const ReferenceBackendConfig config_;
  std::array<int64_t, kMemoryComponents> allocated_bytes_{};
  ReferenceOps ops_;
};

}  // namespace phalanx

#endif  // PHALANX_KERNELS_REFERENCE_REFERENCE_BACKEND_H_
