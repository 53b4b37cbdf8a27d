// The three norms. Sixteen lanes take a head: element i belongs to lane i % 16,
// each lane is a chain in order, and a fixed tree adds the lanes (design rule
// 2), so the bits are those of kernels/cpu.

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/lane.cuh"

namespace phalanx::cuda {
namespace {

constexpr int kLanes = 16;
constexpr int kThreads = 128;
constexpr float kL2NormEpsilon = 1e-6f;

// The head of this half of a warp.
struct Head {
  int64_t row = 0;
  int64_t offset = 0;  // Of its first element in the row.
  bool exists = false;
};

__device__ Head MyHead(HeadsShape shape) {
  const int64_t index = (int64_t{blockIdx.x} * kThreads + threadIdx.x) / kLanes;
  const int64_t row = index / shape.heads;
  return {row, index % shape.heads * shape.size, row < shape.rows};
}

__device__ Lane Load(const float* x) { return {*x}; }
__device__ Lane Load(const uint16_t* x) { return Widen(*x); }
__device__ void Store(float* y, Lane value) { *y = value.value; }
__device__ void Store(uint16_t* y, Lane value) { *y = F32ToBf16(value.value); }

// Lanes i and i + 8, then i + 4, i + 2, i + 1; the same in all sixteen.
__device__ Lane SumOfLanes(Lane x) {
  const unsigned mask = 0xffffu << (threadIdx.x % 32 / kLanes * kLanes);
  for (int half = kLanes / 2; half >= 1; half /= 2)
    x = x + Lane{__shfl_xor_sync(mask, x.value, half)};
  return x;
}

template <typename T>
__device__ Lane SumOfSquares(const T* x, int64_t size) {
  Lane sum = {0};
  for (int64_t i = threadIdx.x % kLanes; i < size; i += kLanes) {
    const Lane value = Load(x + i);
    sum = Fma(value, value, sum);
  }
  return SumOfLanes(sum);
}

template <typename T>
__device__ Lane InverseRms(const T* x, int64_t size, float eps) {
  const Lane mean = SumOfSquares(x, size) / Lane{static_cast<float>(size)};
  return exact::Rsqrt(mean + Lane{eps});
}

__global__ void __launch_bounds__(kThreads)
    RmsNormKernel(HeadsShape shape, Strided<const uint16_t> x, const float* w,
                  float eps, Strided<uint16_t> y) {
  const Head head = MyHead(shape);
  if (!head.exists) return;
  const uint16_t* from = x.data + head.row * x.stride + head.offset;
  uint16_t* to = y.data + head.row * y.stride + head.offset;
  const Lane inverse = InverseRms(from, shape.size, eps);
  for (int64_t i = threadIdx.x % kLanes; i < shape.size; i += kLanes)
    Store(to + i, Load(from + i) * inverse * Load(w + i));
}

__global__ void __launch_bounds__(kThreads)
    GatedRmsNormKernel(HeadsShape shape, Strided<const float> x,
                       Strided<const uint16_t> z, const float* w, float eps,
                       Strided<uint16_t> y) {
  const Head head = MyHead(shape);
  if (!head.exists) return;
  const float* from = x.data + head.row * x.stride + head.offset;
  const uint16_t* gate = z.data + head.row * z.stride + head.offset;
  uint16_t* to = y.data + head.row * y.stride + head.offset;
  const Lane inverse = InverseRms(from, shape.size, eps);
  for (int64_t i = threadIdx.x % kLanes; i < shape.size; i += kLanes) {
    const Lane value = Load(from + i) * inverse * Load(w + i);
    Store(to + i, value * exact::Silu(Load(gate + i)));
  }
}

__global__ void __launch_bounds__(kThreads)
    L2NormKernel(HeadsShape shape, Strided<const float> x, float scale,
                 Strided<float> y) {
  const Head head = MyHead(shape);
  if (!head.exists) return;
  const float* from = x.data + head.row * x.stride + head.offset;
  float* to = y.data + head.row * y.stride + head.offset;
  const Lane inverse =
      exact::Rsqrt(SumOfSquares(from, shape.size) + Lane{kL2NormEpsilon});
  for (int64_t i = threadIdx.x % kLanes; i < shape.size; i += kLanes)
    Store(to + i, Load(from + i) * inverse * Lane{scale});
}

cudaLaunchConfig_t OneHalfWarpAHead(HeadsShape shape, cudaStream_t stream) {
  const int64_t threads = shape.rows * shape.heads * kLanes;
  cudaLaunchConfig_t config = {};
  config.gridDim =
      dim3(static_cast<unsigned>((threads + kThreads - 1) / kThreads));
  config.blockDim = dim3(kThreads);
  config.stream = stream;
  return config;
}

}  // namespace

cudaError_t RmsNorm(HeadsShape shape, Strided<const uint16_t> x, const float* w,
                    float eps, Strided<uint16_t> y, cudaStream_t stream) {
  const cudaLaunchConfig_t config = OneHalfWarpAHead(shape, stream);
  return cudaLaunchKernelEx(&config, RmsNormKernel, shape, x, w, eps, y);
}

cudaError_t GatedRmsNorm(HeadsShape shape, Strided<const float> x,
                         Strided<const uint16_t> z, const float* w, float eps,
                         Strided<uint16_t> y, cudaStream_t stream) {
  const cudaLaunchConfig_t config = OneHalfWarpAHead(shape, stream);
  return cudaLaunchKernelEx(&config, GatedRmsNormKernel, shape, x, z, w, eps,
                            y);
}

cudaError_t L2Norm(HeadsShape shape, Strided<const float> x, float scale,
                   Strided<float> y, cudaStream_t stream) {
  const cudaLaunchConfig_t config = OneHalfWarpAHead(shape, stream);
  return cudaLaunchKernelEx(&config, L2NormKernel, shape, x, scale, y);
}

}  // namespace phalanx::cuda
