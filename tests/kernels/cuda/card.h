#ifndef PHALANX_TESTS_KERNELS_CUDA_CARD_H_
#define PHALANX_TESTS_KERNELS_CUDA_CARD_H_

// The CUDA backend on tests/cuda_on_cpu, and what one test holds on it. Each
// buffer is exactly as long as its tensor, so AddressSanitizer sees the first
// element beyond.

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "common/check.h"
#include "kernels/bf16.h"
#include "kernels/cuda/cuda_backend.h"
#include "tests/cuda_on_cpu/runtime.h"

namespace phalanx {

using Bits = std::vector<uint16_t>;

// A number of [-1, 1) in eighths, which bf16 holds, made of its arguments.
inline uint16_t Eighths(uint64_t seed, uint64_t index) {
  uint64_t z = (seed * 1000003 + index + 1) * 0x9e3779b97f4a7c15u;
  z ^= z >> 29;
  z *= 0xbf58476d1ce4e5b9u;
  return F32ToBf16(static_cast<float>(z >> 60) / 8 - 1);
}

inline Bits RandomBits(uint64_t seed, int64_t count) {
  Bits bits(count);
  for (int64_t i = 0; i < count; ++i) bits[i] = Eighths(seed, i);
  return bits;
}

class Card {
 public:
  explicit Card(CudaBackendConfig config = {.staging_bytes = 4096}) {
    cuda_on_cpu::Reset();
    auto backend = CreateCudaBackend(config, /*tensor_core=*/nullptr);
    CHECK(backend.ok());
    backend_ = *std::move(backend);
  }
  // What a test broke is whole again before memory is given back.
  ~Card() { cuda_on_cpu::Reset(); }

  Backend& backend() { return *backend_; }
  Ops& ops() { return backend_->ops(); }

  template <typename... Dims>
  Tensor New(DType dtype, Dims... dims) {
    Tensor tensor = MakeTensor(nullptr, dtype, dims...);
    auto buffer = backend_->Allocate(tensor.elements() * ElementBytes(dtype),
                                     MemoryComponent::kActivations, "a tensor");
    CHECK(buffer.ok());
    tensor.data = buffer->data();
    buffers_.push_back(*std::move(buffer));
    return tensor;
  }

  Tensor Bf16(const Bits& bits, int64_t rows, int64_t cols) {
    const Tensor tensor = New(DType::kBf16, rows, cols);
    backend_->Upload(bits.data(), tensor);
    return tensor;
  }

  const PackedWeight& Weight(const Bits& bits, int64_t rows, int64_t cols,
                             WeightLayout layout = WeightLayout::kPlain) {
    auto weight =
        backend_->AllocateWeight({.rows = rows, .cols = cols, .layout = layout},
                                 MemoryComponent::kAttention, "a weight");
    CHECK(weight.ok());
    weights_.push_back(std::make_unique<PackedWeight>(*std::move(weight)));
    backend_->PackWeight(bits.data(), 0, *weights_.back());
    return *weights_.back();
  }

  // After Synchronize. T is what an element is held in.
  template <typename T>
  std::vector<T> Read(const Tensor& tensor) {
    CHECK(backend_->Synchronize().ok());
    std::vector<T> values(tensor.elements());
    backend_->Download(tensor, values.data());
    return values;
  }

 private:
  std::unique_ptr<Backend> backend_;
  std::vector<Buffer> buffers_;  // These die before backend_.
  std::vector<std::unique_ptr<PackedWeight>> weights_;
};

}  // namespace phalanx

#endif  // PHALANX_TESTS_KERNELS_CUDA_CARD_H_
