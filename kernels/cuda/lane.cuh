#ifndef PHALANX_KERNELS_CUDA_LANE_CUH_
#define PHALANX_KERNELS_CUDA_LANE_CUH_

// f32 arithmetic of one CUDA thread, and the elementary functions of
// kernels/exact_math.h over it: the same bits as on a processor. Each operation
// rounds once, to nearest: -fmad=false fuses nothing, and division and root are
// the exact ones (-prec-div=true, -prec-sqrt=true). __host__ too, because nvcc
// lets constexpr functions call nothing else.

#include <cuda_runtime.h>

#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/bf16.h"
#include "kernels/exact_math.h"

namespace phalanx::cuda {

struct LaneInt {
  uint32_t value;
  __host__ __device__ static LaneInt All(int32_t v) {
    return {static_cast<uint32_t>(v)};
  }
};
__host__ __device__ inline LaneInt operator+(LaneInt a, LaneInt b) {
  return {a.value + b.value};
}
__host__ __device__ inline LaneInt operator-(LaneInt a, LaneInt b) {
  return {a.value - b.value};
}
__host__ __device__ inline LaneInt operator&(LaneInt a, LaneInt b) {
  return {a.value & b.value};
}
__host__ __device__ inline LaneInt operator^(LaneInt a, LaneInt b) {
  return {a.value ^ b.value};
}
template <int n>
__host__ __device__ inline LaneInt ShiftLeft(LaneInt a) {
  return {a.value << n};
}

struct Lane {
  using Int = LaneInt;
  float value;
  __host__ __device__ static Lane All(float v) { return {v}; }
};
__host__ __device__ inline Lane operator+(Lane a, Lane b) {
  return {a.value + b.value};
}
__host__ __device__ inline Lane operator-(Lane a, Lane b) {
  return {a.value - b.value};
}
__host__ __device__ inline Lane operator*(Lane a, Lane b) {
  return {a.value * b.value};
}
__host__ __device__ inline Lane operator/(Lane a, Lane b) {
  return {a.value / b.value};
}
__host__ __device__ inline Lane Fma(Lane a, Lane b, Lane c) {
  return {fmaf(a.value, b.value, c.value)};
}
__host__ __device__ inline Lane Sqrt(Lane a) { return {sqrtf(a.value)}; }
__host__ __device__ inline Lane Abs(Lane a) { return {fabsf(a.value)}; }
__host__ __device__ inline bool Less(Lane a, Lane b) {
  return a.value < b.value;
}
__host__ __device__ inline bool IsNan(Lane a) { return a.value != a.value; }
__host__ __device__ inline Lane Select(bool mask, Lane a, Lane b) {
  return mask ? a : b;
}
__host__ __device__ inline LaneInt AsInt(Lane a) {
  return {std::bit_cast<uint32_t>(a.value)};
}
__host__ __device__ inline Lane AsFloat(LaneInt a) {
  return {std::bit_cast<float>(a.value)};
}

__host__ __device__ inline Lane Widen(uint16_t bits) {
  return {Bf16ToF32(bits)};
}

__host__ __device__ inline Lane RoundToBf16(Lane x) {
  return Widen(F32ToBf16(x.value));
}

}  // namespace phalanx::cuda

#endif  // PHALANX_KERNELS_CUDA_LANE_CUH_
