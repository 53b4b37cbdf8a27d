#ifndef PHALANX_TESTS_CUDA_ON_CPU_POISON_H_
#define PHALANX_TESTS_CUDA_ON_CPU_POISON_H_

// Bytes that AddressSanitizer must report when they are touched, and no longer;
// nothing without it.

#include <cstddef>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

namespace phalanx::cuda_on_cpu {

inline void PoisonMemory([[maybe_unused]] void* data,
                         [[maybe_unused]] size_t bytes) {
#ifdef __SANITIZE_ADDRESS__
  ASAN_POISON_MEMORY_REGION(data, bytes);
#endif
}

inline void UnpoisonMemory([[maybe_unused]] void* data,
                           [[maybe_unused]] size_t bytes) {
#ifdef __SANITIZE_ADDRESS__
  ASAN_UNPOISON_MEMORY_REGION(data, bytes);
#endif
}

}  // namespace phalanx::cuda_on_cpu

#endif  // PHALANX_TESTS_CUDA_ON_CPU_POISON_H_
