// One element a thread.

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/lane.cuh"

namespace phalanx::cuda {
namespace {

constexpr int kThreads = 256;

// y[row, i] = function(row, i), rounded to bf16.
template <typename Function>
__device__ void ForMyElement(RowsShape shape, Strided<uint16_t> y,
                             const Function& function) {
  const int64_t index = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int64_t row = index / shape.size;
  const int64_t i = index % shape.size;
  if (row >= shape.rows) return;
  const Lane value = function(row, i);
  y.data[row * y.stride + i] = F32ToBf16(value.value);
}

__global__ void __launch_bounds__(kThreads)
    AddKernel(RowsShape shape, Strided<const uint16_t> a,
              Strided<const uint16_t> b, Strided<uint16_t> y) {
  ForMyElement(shape, y, [&](int64_t row, int64_t i) {
    return Widen(a.data[row * a.stride + i]) +
           Widen(b.data[row * b.stride + i]);
  });
}

__global__ void __launch_bounds__(kThreads)
    RoundKernel(RowsShape shape, Strided<const float> x, Strided<uint16_t> y) {
  ForMyElement(shape, y, [&](int64_t row, int64_t i) {
    return Lane{x.data[row * x.stride + i]};
  });
}

__global__ void __launch_bounds__(kThreads)
    MulSigmoidKernel(RowsShape shape, Strided<const float> x,
                     Strided<const uint16_t> gate, Strided<uint16_t> y) {
  ForMyElement(shape, y, [&](int64_t row, int64_t i) {
    return Lane{x.data[row * x.stride + i]} *
           exact::Sigmoid(Widen(gate.data[row * gate.stride + i]));
  });
}

// One unit a thread.
template <typename Unit>
__global__ void __launch_bounds__(kThreads)
    CopyKernel(RowsShape shape, Strided<const Unit> x, Strided<Unit> y) {
  const int64_t index = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int64_t row = index / shape.size;
  const int64_t i = index % shape.size;
  if (row >= shape.rows) return;
  y.data[row * y.stride + i] = x.data[row * x.stride + i];
}

cudaLaunchConfig_t OneThreadAnElement(RowsShape shape, cudaStream_t stream) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(
      (shape.rows * shape.size + kThreads - 1) / kThreads));
  config.blockDim = dim3(kThreads);
  config.stream = stream;
  return config;
}

}  // namespace

cudaError_t Copy(RowsShape shape, Strided<const char> x, Strided<char> y,
                 cudaStream_t stream) {
  const auto copy = [&]<typename Unit>(Unit) {
    constexpr int64_t kSize = sizeof(Unit);
    const RowsShape units = {shape.rows, shape.size / kSize};
    const cudaLaunchConfig_t config = OneThreadAnElement(units, stream);
    const Strided<const Unit> from = {reinterpret_cast<const Unit*>(x.data),
                                      x.stride / kSize};
    const Strided<Unit> to = {reinterpret_cast<Unit*>(y.data),
                              y.stride / kSize};
    return cudaLaunchKernelEx(&config, CopyKernel<Unit>, units, from, to);
  };
  // Whatever one of these is no multiple of, is no whole number of units.
  const int64_t all = reinterpret_cast<int64_t>(x.data) |
                      reinterpret_cast<int64_t>(y.data) | x.stride | y.stride |
                      shape.size;
  return all % sizeof(uint4) == 0 ? copy(uint4{}) : copy(uint16_t{});
}

cudaError_t Add(RowsShape shape, Strided<const uint16_t> a,
                Strided<const uint16_t> b, Strided<uint16_t> y,
                cudaStream_t stream) {
  const cudaLaunchConfig_t config = OneThreadAnElement(shape, stream);
  return cudaLaunchKernelEx(&config, AddKernel, shape, a, b, y);
}

cudaError_t Round(RowsShape shape, Strided<const float> x, Strided<uint16_t> y,
                  cudaStream_t stream) {
  const cudaLaunchConfig_t config = OneThreadAnElement(shape, stream);
  return cudaLaunchKernelEx(&config, RoundKernel, shape, x, y);
}

cudaError_t MulSigmoid(RowsShape shape, Strided<const float> x,
                       Strided<const uint16_t> gate, Strided<uint16_t> y,
                       cudaStream_t stream) {
  const cudaLaunchConfig_t config = OneThreadAnElement(shape, stream);
  return cudaLaunchKernelEx(&config, MulSigmoidKernel, shape, x, gate, y);
}

}  // namespace phalanx::cuda
