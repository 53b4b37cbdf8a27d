#ifndef PHALANX_KERNELS_CPU_SCRATCH_H_
#define PHALANX_KERNELS_CPU_SCRATCH_H_

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "common/check.h"

namespace phalanx {

// Floats that a kernel needs while it works. Grows to the largest request and
// is kept, so a warm step allocates nothing: make it thread_local in the kernel
// that uses it. One user at a time. Large ones lie on huge pages where the
// system gives them: panels are read here and there, a page for every few rows.
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
  static constexpr int64_t kAlignBytes = 64;
  static constexpr int64_t kHugePageBytes = int64_t{2} << 20;

  void Grow(int64_t count) {
    std::free(data_);
    const int64_t wanted = count * static_cast<int64_t>(sizeof(float));
    const bool huge = wanted > kHugePageBytes / 2;
    const int64_t unit = huge ? kHugePageBytes : kAlignBytes;
    const int64_t bytes = (wanted + unit - 1) / unit * unit;
    data_ = static_cast<float*>(std::aligned_alloc(unit, bytes));
    CHECK(data_ != nullptr);
    if (huge) madvise(data_, bytes, MADV_HUGEPAGE);
    count_ = bytes / static_cast<int64_t>(sizeof(float));
  }

  float* data_ = nullptr;
  int64_t count_ = 0;
};

}  // namespace phalanx

#endif  // PHALANX_KERNELS_CPU_SCRATCH_H_
