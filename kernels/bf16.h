#ifndef PHALANX_KERNELS_BF16_H_
#define PHALANX_KERNELS_BF16_H_

// bfloat16 as its 16 bits: the upper half of an f32.

#include <cstdint>
#include <cstring>

namespace phalanx {

inline float Bf16ToF32(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

// Round to nearest, ties to even. A NaN stays a (quiet) NaN.
inline uint16_t F32ToBf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return static_cast<uint16_t>((bits >> 16) | 0x40u);
  bits += 0x7fffu + ((bits >> 16) & 1u);
  return static_cast<uint16_t>(bits >> 16);
}

}  // namespace phalanx

#endif  // PHALANX_KERNELS_BF16_H_
