#ifndef PHALANX_TESTS_CUDA_ON_CPU_DEVICE_CODE_H_
#define PHALANX_TESTS_CUDA_ON_CPU_DEVICE_CODE_H_

// What a .cu file may use on a card and finds here: as much as kernels/cuda
// needs. Names and meanings are CUDA's.

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "tests/cuda_on_cpu/block.h"

#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)

// One section, so that a block finds no values of the block before it. Under
// AddressSanitizer ordinary variables, since it guards no other section.
#ifdef __SANITIZE_ADDRESS__
#define __shared__ static
#else
#define __shared__ static __attribute__((section("phalanx_shared")))
#endif

struct uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

inline void __syncthreads(const phalanx::cuda_on_cpu::Site& where =
                              phalanx::cuda_on_cpu::Site::current()) {
  phalanx::cuda_on_cpu::WaitForBlock(where);
}

template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask,
                  const phalanx::cuda_on_cpu::Site& where =
                      phalanx::cuda_on_cpu::Site::current()) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(value));
  bits = phalanx::cuda_on_cpu::ExchangeInWarp(
      mask, bits, phalanx::cuda_on_cpu::MyLane() ^ lane_mask, where);
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// Rounded to nearest; the file is compiled with -ffp-contract=off.
inline float __fmaf_rn(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}
inline float __fadd_rn(float a, float b) { return a + b; }

#endif  // PHALANX_TESTS_CUDA_ON_CPU_DEVICE_CODE_H_
