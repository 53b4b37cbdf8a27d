#ifndef PHALANX_KERNELS_FORWARDING_BACKEND_H_
#define PHALANX_KERNELS_FORWARDING_BACKEND_H_

#include <memory>
#include <string>
#include <utility>

#include "kernels/backend.h"

namespace phalanx {

// A backend inside another, which gives its own ops() over those of inner():
// to count them, to time them, to look at their arguments. Memory and weights
// are the inner one's.
class ForwardingBackend : public Backend {
 public:
  explicit ForwardingBackend(std::unique_ptr<Backend> inner)
      : inner_(std::move(inner)) {}

  DType activation_dtype() const override { return inner_->activation_dtype(); }
  std::string kernel_family() const override { return inner_->kernel_family(); }
  std::string instruction_set() const override {
    return inner_->instruction_set();
  }
  int threads() const override { return inner_->threads(); }
  absl::StatusOr<Buffer> Allocate(int64_t bytes, MemoryComponent component,
                                  absl::string_view what) override {
    return inner_->Allocate(bytes, component, what);
  }
  int64_t allocated_bytes(MemoryComponent component) const override {
    return inner_->allocated_bytes(component);
  }
  void Upload(const void* host, Tensor device) override {
    inner_->Upload(host, device);
  }
  void Download(Tensor device, void* host) override {
    inner_->Download(device, host);
  }
  absl::StatusOr<PackedWeight> AllocateWeight(const WeightShape& shape,
                                              MemoryComponent component,
                                              absl::string_view what) override {
    return inner_->AllocateWeight(shape, component, what);
  }
  void PackWeight(const uint16_t* host, int64_t index,
                  PackedWeight& weight) override {
    inner_->PackWeight(host, index, weight);
  }
  void PackCodes(const uint8_t* codes, const uint16_t* scales, int64_t index,
                 PackedWeight& weight) override {
    inner_->PackCodes(codes, scales, index, weight);
  }
  std::string packed_layout() const override { return inner_->packed_layout(); }
  void StorePacked(const void* packed, int64_t index,
                   PackedWeight& weight) override {
    inner_->StorePacked(packed, index, weight);
  }
  void ReadPacked(const PackedWeight& weight, int64_t index,
                  void* packed) override {
    inner_->ReadPacked(weight, index, packed);
  }
  absl::Status Synchronize() override { return inner_->Synchronize(); }

 protected:
  Backend& inner() { return *inner_; }

 private:
  const std::unique_ptr<Backend> inner_;
};

}  // namespace phalanx

#endif  // PHALANX_KERNELS_FORWARDING_BACKEND_H_
