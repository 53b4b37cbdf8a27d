#ifndef PHALANX_KERNELS_BF16_H_
#define PHALANX_KERNELS_BF16_H_

// bfloat16 as its 16 bits: the upper half of an f32. constexpr, so that device
// code may call it too (nvcc's --expt-relaxed-constexpr).

#include <bit>
#include <cstdint>

namespace phalanx {

constexpr float Bf16ToF32(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// Round to nearest, ties to even. A NaN stays a (quiet) NaN.
constexpr uint16_t F32ToBf16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return static_cast<uint16_t>((bits >> 16) | 0x40u);
  bits += 0x7fffu + ((bits >> 16) & 1u);
  return static_cast<uint16_t>(bits >> 16);
}

}  // namespace phalanx

#endif  // PHALANX_KERNELS_BF16_H_
