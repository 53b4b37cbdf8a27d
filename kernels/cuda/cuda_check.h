#ifndef PHALANX_KERNELS_CUDA_CUDA_CHECK_H_
#define PHALANX_KERNELS_CUDA_CUDA_CHECK_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/mutex.h"

namespace phalanx::cuda {

// "cudaMalloc: out of memory (cudaErrorMemoryAllocation)"
inline std::string Told(const char* call, cudaError_t error) {
  return absl::StrCat(call, ": ", cudaGetErrorString(error), " (",
                      cudaGetErrorName(error), ")");
}

// The first error since somebody asked. Calls that enqueue return nothing, so
// theirs are kept here until Backend::Synchronize. Any thread.
class CudaErrors {
 public:
  // `what` was given to the stream, or was refused.
  void Enqueued(const char* what, cudaError_t error) {
    MutexLock lock(mutex_);
    if (enqueued_++ == 0) first_ = what;
    last_ = what;
    if (error != cudaSuccess) Keep(Told(what, error));
  }

  // A transfer, which has been waited for, and with it what came before.
  void Transferred(const char* what, cudaError_t error) {
    MutexLock lock(mutex_);
    if (error == cudaSuccess) return;
    Keep(absl::StrCat(enqueued_ == 0 ? "" : Span() + ", then ",
                      Told(what, error)));
  }

  // `error` is what waiting for the stream returned: if no call before has
  // failed, it is of one of those that were enqueued since the last time.
  absl::Status Take(cudaError_t error) {
    MutexLock lock(mutex_);
    if (error != cudaSuccess) Keep(Told(Span().c_str(), error));
    const std::string message = std::exchange(message_, "");
    enqueued_ = 0;
    first_ = last_ = "";
    if (message.empty()) return absl::OkStatus();
    return absl::InternalError(message);
  }

 private:
  // "GateUp", or "RmsNorm .. GateUp, one of 3 operations".
  std::string Span() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (enqueued_ == 0) return "the device";
    if (enqueued_ == 1) return first_;
    return absl::StrCat(first_, " .. ", last_, ", one of ", enqueued_,
                        " operations");
  }

  void Keep(std::string message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (message_.empty()) message_ = std::move(message);
  }

  Mutex mutex_;
  std::string message_ ABSL_GUARDED_BY(mutex_);
  int64_t enqueued_ ABSL_GUARDED_BY(mutex_) = 0;
  const char* first_ ABSL_GUARDED_BY(mutex_) = "";
  const char* last_ ABSL_GUARDED_BY(mutex_) = "";
};

}  // namespace phalanx::cuda

#endif  // PHALANX_KERNELS_CUDA_CUDA_CHECK_H_
