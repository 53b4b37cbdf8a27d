#ifndef PHALANX_KERNELS_CPU_VEC_H_
#define PHALANX_KERNELS_CPU_VEC_H_

// Sixteen f32 lanes, whatever the hardware: a 512-bit register, two of 256, or
// an array that the compiler splits as it can. Every operation here gives the
// same bits in every instruction set; kernels are written on top of it once.
//
// Sums along a row follow one rule (design.md section 3, rule 2): element i
// goes to lane i % 16, each lane is a chain in order, and HorizontalSum adds
// the lanes by a fixed tree. Tails are zeros.
//
// For kernel files only (PHALANX_ISA is their namespace).

#ifndef PHALANX_ISA
#error "vec.h is for files that are compiled once an instruction set"
#endif

#include <cstdint>
#include <cstring>

#include "kernels/exact_math.h"

#if defined(__AVX512F__)
#include "kernels/cpu/vec_avx512.h"
#elif defined(__AVX2__)
#include "kernels/cpu/vec_avx2.h"
#else
#include "kernels/cpu/vec_portable.h"
#endif

namespace phalanx::PHALANX_ISA {

inline constexpr int64_t kLanes = 16;

inline F32x16 Broadcast(float x) { return F32x16::All(x); }
inline F32x16 Zero() { return F32x16::All(0.0f); }

inline F32x16 Exp(F32x16 x) { return exact::Exp(x); }
inline F32x16 Sigmoid(F32x16 x) { return exact::Sigmoid(x); }
inline F32x16 Silu(F32x16 x) { return exact::Silu(x); }
inline F32x16 Softplus(F32x16 x) { return exact::Softplus(x); }

// The first n lanes from memory, n < 16; zeros above. LoadPart reads a whole
// vector where n >= 16.
inline F32x16 LoadPart(const float* p, int64_t n) {
  return n >= kLanes ? Load(p) : LoadTail(p, n);
}
inline F32x16 LoadPart(const uint16_t* p, int64_t n) {
  return n >= kLanes ? Load(p) : LoadTail(p, n);
}
inline void StorePart(float* p, F32x16 x, int64_t n) {
  n >= kLanes ? Store(p, x) : StoreTail(p, x, n);
}
inline void StorePart(uint16_t* p, F32x16 x, int64_t n) {
  n >= kLanes ? Store(p, x) : StoreTail(p, x, n);
}

// x with its lanes rounded to bf16 and widened again.
inline F32x16 RoundToBf16(F32x16 x) {
  const I32x16 bits = AsInt(x);
  const I32x16 odd = ShiftRight<16>(bits) & I32x16::All(1);
  const I32x16 rounded = (bits + odd + I32x16::All(0x7fff)) &
                         I32x16::All(static_cast<int32_t>(0xffff0000u));
  return Select(IsNan(x), Broadcast(exact::kNan), AsFloat(rounded));
}

// For the odd scalar: the functions above on one value.
inline float FirstLane(F32x16 x) {
  alignas(64) float lanes[kLanes];
  Store(lanes, x);
  return lanes[0];
}

}  // namespace phalanx::PHALANX_ISA

#endif  // PHALANX_KERNELS_CPU_VEC_H_
