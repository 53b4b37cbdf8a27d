#ifndef PHALANX_TESTS_CUDA_ON_CPU_RUNTIME_H_
#define PHALANX_TESTS_CUDA_ON_CPU_RUNTIME_H_

// As much of the CUDA runtime's interface as kernels/cuda uses, over
// DeviceMemory and blocks of fibers. Names, numbers and meanings are CUDA's.
//
// Stricter than a card: what a stream was given runs only when somebody waits
// for the stream, and a copy reads its host memory only then. So memory that
// was given up too early, and a result that nobody waited for, show each time.
// Any thread; they take turns.

#include <cstddef>
#include <functional>
#include <string>
#include <utility>

#include "tests/cuda_on_cpu/block.h"

enum cudaError_t : int {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorNoKernelImageForDevice = 209,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorIllegalAddress = 700,
  cudaErrorLaunchFailure = 719,
};

enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2 };

enum cudaDeviceAttr {
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrComputeCapabilityMinor = 76,
};

struct CudaOnCpuStream;
using cudaStream_t = CudaOnCpuStream*;
inline constexpr unsigned cudaStreamNonBlocking = 1;

struct cudaLaunchConfig_t {
  dim3 gridDim;
  dim3 blockDim;
  size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
};

const char* cudaGetErrorName(cudaError_t error);
const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute,
                                   int device);
cudaError_t cudaMemGetInfo(size_t* free, size_t* total);
cudaError_t cudaMalloc(void** data, size_t bytes);
cudaError_t cudaFree(void* data);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* data, int value, size_t bytes,
                            cudaStream_t stream);
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes,
                            cudaMemcpyKind kind, cudaStream_t stream);

namespace phalanx::cuda_on_cpu {

inline constexpr int kDevices = 2;

// The next call of this name, or the next "kernel" that runs, fails so. An
// error of what runs on a stream shows when somebody waits for it and stays
// until Reset, as on a card.
void FailNext(const std::string& call, cudaError_t error);

// What the last block that could not go on said.
std::string Complaint();

// No errors, no complaint, nothing left out; the seed of the beginning.
void Reset();

cudaError_t Launch(const cudaLaunchConfig_t& config,
                   std::function<void()> thread);

}  // namespace phalanx::cuda_on_cpu

template <typename... Expected, typename... Actual>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config,
                               void (*kernel)(Expected...), Actual&&... args) {
  return phalanx::cuda_on_cpu::Launch(
      *config, [kernel, ... held = Expected(args)] { kernel(held...); });
}

#endif  // PHALANX_TESTS_CUDA_ON_CPU_RUNTIME_H_
