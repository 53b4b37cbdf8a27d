#ifndef PHALANX_KERNELS_CPU_SCRATCH_H_
#define PHALANX_KERNELS_CPU_SCRATCH_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "common/check.h"

namespace phalanx {

// Floats that a kernel needs while it works. Grows to the largest request and
// is kept, so a warm step allocates nothing: make it thread_local in the kernel
// that uses it. One user at a time.
class Scratch {
 public:
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { std::free(data_); }

  // At least `count` floats, 64-byte aligned, contents undefined, valid until
  // the next call.
  float* Get(int64_t count) {
    if (count > count_) Grow(count);
    return data_;
  }
  // The same in bytes.
  std::byte* Bytes(int64_t count) {
    constexpr int64_t kFloat = sizeof(float);
    return reinterpret_cast<std::byte*>(Get((count + kFloat - 1) / kFloat));
  }

 private:
  static constexpr int64_t kAlignFloats = 16;

  void Grow(int64_t count) {
    std::free(data_);
    count_ = (count + kAlignFloats - 1) / kAlignFloats * kAlignFloats;
    data_ = static_cast<float*>(
        std::aligned_alloc(kAlignFloats * sizeof(float),
                           static_cast<size_t>(count_) * sizeof(float)));
    CHECK(data_ != nullptr);
  }

  float* data_ = nullptr;
  int64_t count_ = 0;
};

}  // namespace phalanx

#endif  // PHALANX_KERNELS_CPU_SCRATCH_H_
