#include <xmmintrin.h>

#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <set>

#include "tests/cuda_on_cpu/device_memory.h"
#include "tests/cuda_on_cpu/include/cuda_runtime.h"

struct CudaOnCpuStream {
  int device = 0;
  std::deque<std::function<cudaError_t()>> work;
};

namespace phalanx::cuda_on_cpu {
namespace {

constexpr unsigned kFlushToZero = 0x8000;
constexpr unsigned kDenormalsAreZero = 0x0040;
constexpr unsigned kMaxGridRows = 65535;
constexpr uint64_t kFirstSeed = 1;

struct State {
  // Of whoever calls: threads take turns, also at running a stream.
  std::recursive_mutex mutex;
  std::string failing_call;
  cudaError_t failing_with = cudaSuccess;
  cudaError_t broken = cudaSuccess;  // Of what ran; stays.
  std::string complaint;
  std::set<cudaStream_t> streams;
};

State& The() {
  static State state;
  return state;
}

using Lock = std::lock_guard<std::recursive_mutex>;

// As on a card: a matter of the calling thread.
thread_local int current_device = 0;

cudaError_t TakeFault(const std::string& call) {
  if (The().failing_call != call) return cudaSuccess;
  The().failing_call.clear();
  return The().failing_with;
}

// What a call begins with: an error asked for, or of what ran before.
cudaError_t Begin(const std::string& call) {
  const cudaError_t fault = TakeFault(call);
  return fault != cudaSuccess ? fault : The().broken;
}

// Kernels of the plugin are compiled with -ftz=true.
class DenormalsFlushed {
 public:
  DenormalsFlushed() : before_(_mm_getcsr()) {
    _mm_setcsr(before_ | kFlushToZero | kDenormalsAreZero);
  }
  ~DenormalsFlushed() { _mm_setcsr(before_); }

 private:
  const unsigned before_;
};

cudaError_t RunGrid(const cudaLaunchConfig_t& config,
                    const std::function<void()>& thread) {
  const cudaError_t fault = TakeFault("kernel");
  if (fault != cudaSuccess) return fault;
  const DenormalsFlushed flushed;
  gridDim = config.gridDim;
  blockDim = config.blockDim;
  for (unsigned z = 0; z < gridDim.z; ++z)
    for (unsigned y = 0; y < gridDim.y; ++y)
      for (unsigned x = 0; x < gridDim.x; ++x) {
        blockIdx = dim3(x, y, z);
        const std::string complaint = RunBlock(thread);
        if (complaint.empty()) continue;
        The().complaint = complaint;
        std::fprintf(stderr, "cuda_on_cpu: %s\n", complaint.c_str());
        return cudaErrorLaunchFailure;
      }
  return cudaSuccess;
}

void Run(CudaOnCpuStream& stream) {
  const DeviceMemory::Open open;
  while (!stream.work.empty()) {
    const std::function<cudaError_t()> next = std::move(stream.work.front());
    stream.work.pop_front();
    if (The().broken == cudaSuccess) The().broken = next();
  }
}

cudaError_t Enqueue(cudaStream_t stream, std::function<cudaError_t()> work) {
  if (!The().streams.contains(stream) || stream->device != current_device)
    return cudaErrorInvalidResourceHandle;
  stream->work.push_back(std::move(work));
  return cudaSuccess;
}

}  // namespace

void FailNext(const std::string& call, cudaError_t error) {
  const Lock lock(The().mutex);
  The().failing_call = call;
  The().failing_with = error;
}

std::string Complaint() {
  const Lock lock(The().mutex);
  return The().complaint;
}

void Reset() {
  const Lock lock(The().mutex);
  The().failing_call.clear();
  The().broken = cudaSuccess;
  The().complaint.clear();
  LeaveOutBarrier("");
  ForgetBarriers();
  SetSeed(kFirstSeed);
}

cudaError_t Launch(const cudaLaunchConfig_t& config,
                   std::function<void()> thread) {
  const Lock lock(The().mutex);
  const cudaError_t error = Begin("cudaLaunchKernelEx");
  if (error != cudaSuccess) return error;
  const dim3 grid = config.gridDim, block = config.blockDim;
  const unsigned threads = block.x * block.y * block.z;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.y > kMaxGridRows ||
      grid.z > kMaxGridRows || threads == 0 || threads > kMaxBlockThreads ||
      config.dynamicSmemBytes != 0)
    return cudaErrorInvalidConfiguration;
  return Enqueue(config.stream, [config, thread = std::move(thread)] {
    return RunGrid(config, thread);
  });
}

}  // namespace phalanx::cuda_on_cpu

using phalanx::cuda_on_cpu::Begin;
using phalanx::cuda_on_cpu::current_device;
using phalanx::cuda_on_cpu::DeviceMemory;
using phalanx::cuda_on_cpu::Enqueue;
using phalanx::cuda_on_cpu::kDevices;
using phalanx::cuda_on_cpu::Lock;
using phalanx::cuda_on_cpu::The;

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    case cudaErrorInsufficientDriver:
      return "cudaErrorInsufficientDriver";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorNoKernelImageForDevice:
      return "cudaErrorNoKernelImageForDevice";
    case cudaErrorInvalidResourceHandle:
      return "cudaErrorInvalidResourceHandle";
    case cudaErrorIllegalAddress:
      return "cudaErrorIllegalAddress";
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
  }
  return "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) {
  return cudaGetErrorName(error);
}

cudaError_t cudaGetDeviceCount(int* count) {
  const Lock lock(The().mutex);
  const cudaError_t error = Begin("cudaGetDeviceCount");
  if (error == cudaSuccess) *count = kDevices;
  return error;
}

cudaError_t cudaSetDevice(int device) {
  const Lock lock(The().mutex);
  const cudaError_t error = Begin("cudaSetDevice");
  if (error != cudaSuccess) return error;
  if (device < 0 || device >= kDevices) return cudaErrorInvalidDevice;
  current_device = device;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute,
                                   int device) {
  const Lock lock(The().mutex);
  const cudaError_t error = Begin("cudaDeviceGetAttribute");
  if (error != cudaSuccess) return error;
  if (device < 0 || device >= kDevices) return cudaErrorInvalidDevice;
  *value = attribute == cudaDevAttrComputeCapabilityMajor ? 9 : 0;
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const Lock lock(The().mutex);
  const cudaError_t error = Begin("cudaMemGetInfo");
  if (error != cudaSuccess) return error;
  *free = DeviceMemory::The().free_bytes();
  *total = DeviceMemory::kBytes;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** data, size_t bytes) {
  const Lock lock(The().mutex);
  const cudaError_t error = Begin("cudaMalloc");
  if (error != cudaSuccess) return error;
  *data = DeviceMemory::The().Allocate(bytes);
  return *data != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaFree(void* data) {
  const Lock lock(The().mutex);
  // Waits for the device.
  for (cudaStream_t stream : The().streams) phalanx::cuda_on_cpu::Run(*stream);
  const cudaError_t error = Begin("cudaFree");
  if (data == nullptr) return error;
  if (!DeviceMemory::The().Free(data)) return cudaErrorInvalidValue;
  return error;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  const Lock lock(The().mutex);
  const cudaError_t error = Begin("cudaStreamCreateWithFlags");
  if (error != cudaSuccess) return error;
  *stream = new CudaOnCpuStream{current_device, {}};
  The().streams.insert(*stream);
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const Lock lock(The().mutex);
  if (The().streams.erase(stream) == 0) return cudaErrorInvalidResourceHandle;
  phalanx::cuda_on_cpu::Run(*stream);
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const Lock lock(The().mutex);
  if (!The().streams.contains(stream)) return cudaErrorInvalidResourceHandle;
  phalanx::cuda_on_cpu::Run(*stream);
  return Begin("cudaStreamSynchronize");
}

cudaError_t cudaMemsetAsync(void* data, int value, size_t bytes,
                            cudaStream_t stream) {
  const Lock lock(The().mutex);
  const cudaError_t error = Begin("cudaMemsetAsync");
  if (error != cudaSuccess) return error;
  return Enqueue(stream, [=] {
    std::memset(data, value, bytes);
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes,
                            cudaMemcpyKind, cudaStream_t stream) {
  const Lock lock(The().mutex);
  const cudaError_t error = Begin("cudaMemcpyAsync");
  if (error != cudaSuccess) return error;
  return Enqueue(stream, [=] {
    std::memcpy(to, from, bytes);
    return cudaSuccess;
  });
}
