#ifndef PHALANX_KERNELS_CPU_VEC_PORTABLE_H_
#define PHALANX_KERNELS_CPU_VEC_PORTABLE_H_

// vec.h for any processor: arrays of 16 and loops over them. Included by vec.h
// alone, which says what the operations mean.

#include <cstdint>
#include <cstring>

#include "kernels/bf16.h"

namespace phalanx::PHALANX_ISA {

// Lane by lane: r[i] = f(i).
template <typename Result, typename Function>
[[gnu::always_inline]] inline Result EachLane(const Function& f) {
  Result r;
  for (int i = 0; i < 16; ++i) r.v[i] = f(i);
  return r;
}

struct I32x16 {
  alignas(16) uint32_t v[16];
  static I32x16 All(int32_t x) {
    return EachLane<I32x16>([&](int) { return static_cast<uint32_t>(x); });
  }
};
inline I32x16 operator+(const I32x16& a, const I32x16& b) {
  return EachLane<I32x16>([&](int i) { return a.v[i] + b.v[i]; });
}
inline I32x16 operator-(const I32x16& a, const I32x16& b) {
  return EachLane<I32x16>([&](int i) { return a.v[i] - b.v[i]; });
}
inline I32x16 operator&(const I32x16& a, const I32x16& b) {
  return EachLane<I32x16>([&](int i) { return a.v[i] & b.v[i]; });
}
inline I32x16 operator^(const I32x16& a, const I32x16& b) {
  return EachLane<I32x16>([&](int i) { return a.v[i] ^ b.v[i]; });
}
template <int n>
inline I32x16 ShiftLeft(const I32x16& a) {
  return EachLane<I32x16>([&](int i) { return a.v[i] << n; });
}
template <int n>
inline I32x16 ShiftRight(const I32x16& a) {
  return EachLane<I32x16>([&](int i) {
    return static_cast<uint32_t>(static_cast<int32_t>(a.v[i]) >> n);
  });
}

// All bits of a lane or none.
struct Mask16 {
  alignas(16) uint32_t v[16];
};
inline Mask16 IsZero(const I32x16& a) {
  return EachLane<Mask16>([&](int i) { return a.v[i] == 0 ? ~0u : 0u; });
}

inline Mask16 FirstLanes(int64_t n) {
  return EachLane<Mask16>([&](int i) { return i < n ? ~0u : 0u; });
}

struct F32x16 {
  using Int = I32x16;
  alignas(16) float v[16];
  static F32x16 All(float x) {
    return EachLane<F32x16>([&](int) { return x; });
  }
};
inline F32x16 operator+(const F32x16& a, const F32x16& b) {
  return EachLane<F32x16>([&](int i) { return a.v[i] + b.v[i]; });
}
inline F32x16 operator-(const F32x16& a, const F32x16& b) {
  return EachLane<F32x16>([&](int i) { return a.v[i] - b.v[i]; });
}
inline F32x16 operator*(const F32x16& a, const F32x16& b) {
  return EachLane<F32x16>([&](int i) { return a.v[i] * b.v[i]; });
}
inline F32x16 operator/(const F32x16& a, const F32x16& b) {
  return EachLane<F32x16>([&](int i) { return a.v[i] / b.v[i]; });
}
inline F32x16 Fma(const F32x16& a, const F32x16& b, const F32x16& c) {
  return EachLane<F32x16>(
      [&](int i) { return __builtin_fmaf(a.v[i], b.v[i], c.v[i]); });
}
inline F32x16 Sqrt(const F32x16& a) {
  return EachLane<F32x16>([&](int i) { return __builtin_sqrtf(a.v[i]); });
}
inline F32x16 Abs(const F32x16& a) {
  return EachLane<F32x16>([&](int i) { return __builtin_fabsf(a.v[i]); });
}
// a where a > b, else b: b where either is NaN.
inline F32x16 Max(const F32x16& a, const F32x16& b) {
  return EachLane<F32x16>(
      [&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
inline Mask16 Less(const F32x16& a, const F32x16& b) {
  return EachLane<Mask16>([&](int i) { return a.v[i] < b.v[i] ? ~0u : 0u; });
}
inline Mask16 IsNan(const F32x16& a) {
  return EachLane<Mask16>([&](int i) { return a.v[i] != a.v[i] ? ~0u : 0u; });
}
inline I32x16 AsInt(const F32x16& a) {
  I32x16 r;
  std::memcpy(r.v, a.v, sizeof(r.v));
  return r;
}
inline F32x16 AsFloat(const I32x16& a) {
  F32x16 r;
  std::memcpy(r.v, a.v, sizeof(r.v));
  return r;
}
inline F32x16 Select(const Mask16& m, const F32x16& a, const F32x16& b) {
  return EachLane<F32x16>([&](int i) { return m.v[i] ? a.v[i] : b.v[i]; });
}

inline F32x16 Load(const float* p) {
  return EachLane<F32x16>([&](int i) { return p[i]; });
}
inline void Store(float* p, const F32x16& x) {
  std::memcpy(p, x.v, sizeof(x.v));
}
inline F32x16 LoadTail(const float* p, int64_t n) {
  return EachLane<F32x16>([&](int i) { return i < n ? p[i] : 0.0f; });
}
inline void StoreTail(float* p, const F32x16& x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) p[i] = x.v[i];
}

inline F32x16 Load(const uint16_t* p) {
  return EachLane<F32x16>([&](int i) { return Bf16ToF32(p[i]); });
}
inline void Store(uint16_t* p, const F32x16& x) {
  for (int i = 0; i < 16; ++i) p[i] = F32ToBf16(x.v[i]);
}
inline F32x16 LoadTail(const uint16_t* p, int64_t n) {
  return EachLane<F32x16>(
      [&](int i) { return i < n ? Bf16ToF32(p[i]) : 0.0f; });
}
inline void StoreTail(uint16_t* p, const F32x16& x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) p[i] = F32ToBf16(x.v[i]);
}

// The tree combines lanes i and i + 8, then i + 4, i + 2, i + 1.
template <typename Combine>
[[gnu::always_inline]] inline float CombineLanes(F32x16 x,
                                                 const Combine& combine) {
  for (int half = 8; half >= 1; half /= 2)
    for (int i = 0; i < half; ++i) x.v[i] = combine(x.v[i], x.v[i + half]);
  return x.v[0];
}
inline float HorizontalSum(const F32x16& x) {
  return CombineLanes(x, [](float a, float b) { return a + b; });
}
inline float HorizontalMax(const F32x16& x) {
  return CombineLanes(x, [](float a, float b) { return a > b ? a : b; });
}

// Lane i is HorizontalSum(v[i]).
inline F32x16 HorizontalSums(const F32x16* v) {
  return EachLane<F32x16>([&](int i) { return HorizontalSum(v[i]); });
}

}  // namespace phalanx::PHALANX_ISA

#endif  // PHALANX_KERNELS_CPU_VEC_PORTABLE_H_
