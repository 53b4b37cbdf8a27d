#ifndef PHALANX_WORKER_BENCH_OPERANDS_H_
#define PHALANX_WORKER_BENCH_OPERANDS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/status.h"
#include "kernels/backend.h"
#include "worker/bench/noise.h"

namespace phalanx {

// Seeded operands of a kernel in a backend's memory. One thread's; dies before
// the backend, and after whatever views it gave.
class Operands {
 public:
  explicit Operands(Backend& backend) : backend_(backend), noise_(1, 1.0f) {}

  Backend& backend() { return backend_; }

  // Uniform in [-1, 1].
  template <typename... Dims>
  absl::StatusOr<Tensor> Floats(DType type, Dims... dims) {
    ASSIGN_OR_RETURN(Tensor tensor, Zeros(type, dims...));
    noise_.Fill(backend_, tensor);
    return tensor;
  }

  template <typename... Dims>
  absl::StatusOr<Tensor> Zeros(DType type, Dims... dims) {
    Tensor tensor = MakeTensor(nullptr, type, dims...);
    ASSIGN_OR_RETURN(
        Buffer buffer,
        backend_.Allocate(tensor.elements() * ElementBytes(type),
                          MemoryComponent::kActivations, "operands"));
    tensor.data = buffer.data();
    buffers_.push_back(std::move(buffer));
    return tensor;
  }

  absl::StatusOr<Tensor> Ints(const std::vector<int32_t>& values) {
    ASSIGN_OR_RETURN(Tensor tensor, Zeros(DType::kI32, std::ssize(values)));
    backend_.Upload(values.data(), tensor);
    return tensor;
  }

  // `count` weights of shape.count matrices each, all alike. UNIMPLEMENTED
  // where the backend has no products in that format.
  absl::StatusOr<std::vector<PackedWeight>> Weights(const WeightShape& shape,
                                                    int64_t count = 1);

 private:
  Backend& backend_;
  const Noise noise_;
  std::vector<Buffer> buffers_;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_BENCH_OPERANDS_H_
