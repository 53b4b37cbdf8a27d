#ifndef PHALANX_KERNELS_CPU_VEC_AVX512_H_
#define PHALANX_KERNELS_CPU_VEC_AVX512_H_

// vec.h for AVX-512 F, BW, DQ and VL. Included by vec.h alone, which says what
// the operations mean.

#include <immintrin.h>

#include <cstdint>

namespace phalanx::PHALANX_ISA {

struct I32x16 {
  __m512i v;
  static I32x16 All(int32_t x) { return {_mm512_set1_epi32(x)}; }
};
inline I32x16 operator+(I32x16 a, I32x16 b) {
  return {_mm512_add_epi32(a.v, b.v)};
}
inline I32x16 operator-(I32x16 a, I32x16 b) {
  return {_mm512_sub_epi32(a.v, b.v)};
}
inline I32x16 operator&(I32x16 a, I32x16 b) {
  return {_mm512_and_si512(a.v, b.v)};
}
inline I32x16 operator^(I32x16 a, I32x16 b) {
  return {_mm512_xor_si512(a.v, b.v)};
}
template <int n>
inline I32x16 ShiftLeft(I32x16 a) {
  return {_mm512_slli_epi32(a.v, n)};
}
template <int n>
inline I32x16 ShiftRight(I32x16 a) {
  return {_mm512_srai_epi32(a.v, n)};
}

struct Mask16 {
  __mmask16 m;
};
inline Mask16 IsZero(I32x16 a) { return {_mm512_testn_epi32_mask(a.v, a.v)}; }
inline Mask16 FirstLanes(int64_t n) {
  return {static_cast<__mmask16>(n >= 16 ? 0xffffu : (1u << n) - 1u)};
}

struct F32x16 {
  using Int = I32x16;
  __m512 v;
  static F32x16 All(float x) { return {_mm512_set1_ps(x)}; }
};
inline F32x16 operator+(F32x16 a, F32x16 b) {
  return {_mm512_add_ps(a.v, b.v)};
}
inline F32x16 operator-(F32x16 a, F32x16 b) {
  return {_mm512_sub_ps(a.v, b.v)};
}
inline F32x16 operator*(F32x16 a, F32x16 b) {
  return {_mm512_mul_ps(a.v, b.v)};
}
inline F32x16 operator/(F32x16 a, F32x16 b) {
  return {_mm512_div_ps(a.v, b.v)};
}
inline F32x16 Fma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm512_fmadd_ps(a.v, b.v, c.v)};
}
inline F32x16 Sqrt(F32x16 a) { return {_mm512_sqrt_ps(a.v)}; }
inline F32x16 Abs(F32x16 a) { return {_mm512_abs_ps(a.v)}; }
// a where a > b, else b: b where either is NaN.
inline F32x16 Max(F32x16 a, F32x16 b) { return {_mm512_max_ps(a.v, b.v)}; }
inline Mask16 Less(F32x16 a, F32x16 b) {
  return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)};
}
inline Mask16 IsNan(F32x16 a) {
  return {_mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q)};
}
inline F32x16 Select(Mask16 m, F32x16 a, F32x16 b) {
  return {_mm512_mask_blend_ps(m.m, b.v, a.v)};
}
inline I32x16 AsInt(F32x16 a) { return {_mm512_castps_si512(a.v)}; }
inline F32x16 AsFloat(I32x16 a) { return {_mm512_castsi512_ps(a.v)}; }

inline F32x16 Load(const float* p) { return {_mm512_loadu_ps(p)}; }
inline void Store(float* p, F32x16 x) { _mm512_storeu_ps(p, x.v); }
inline F32x16 LoadTail(const float* p, int64_t n) {
  return {_mm512_maskz_loadu_ps(FirstLanes(n).m, p)};
}
inline void StoreTail(float* p, F32x16 x, int64_t n) {
  _mm512_mask_storeu_ps(p, FirstLanes(n).m, x.v);
}

// bf16 in memory, widened; narrowed to nearest, ties to even, NaNs kept.
inline F32x16 Widen(__m256i bits) {
  return {
      _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16))};
}
inline __m256i Narrow(F32x16 x) {
  const __m512i bits = _mm512_castps_si512(x.v);
  const __m512i high = _mm512_srli_epi32(bits, 16);
  const __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_srli_epi32(
      _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff))),
      16);
  const __m512i quiet = _mm512_or_si512(high, _mm512_set1_epi32(0x40));
  return _mm512_cvtepi32_epi16(
      _mm512_mask_blend_epi32(IsNan(x).m, rounded, quiet));
}
inline F32x16 Load(const uint16_t* p) {
  return Widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline void Store(uint16_t* p, F32x16 x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), Narrow(x));
}
inline F32x16 LoadTail(const uint16_t* p, int64_t n) {
  return Widen(_mm256_maskz_loadu_epi16(FirstLanes(n).m, p));
}
inline void StoreTail(uint16_t* p, F32x16 x, int64_t n) {
  _mm256_mask_storeu_epi16(p, FirstLanes(n).m, Narrow(x));
}

// The tree adds lanes i and i + 8, then i + 4, i + 2, i + 1.
inline float HorizontalSum(F32x16 x) {
  const __m256 a = _mm256_add_ps(_mm512_castps512_ps256(x.v),
                                 _mm512_extractf32x8_ps(x.v, 1));
  const __m128 b =
      _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}
inline float HorizontalMax(F32x16 x) {
  const __m256 a = _mm256_max_ps(_mm512_castps512_ps256(x.v),
                                 _mm512_extractf32x8_ps(x.v, 1));
  const __m128 b =
      _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 c = _mm_max_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_max_ss(c, _mm_movehdup_ps(c)));
}

// One step of sixteen HorizontalSums at once: a and b hold lanes of several
// vectors, 2 kStep of each in a row; the sums of those that are kStep apart,
// a's and b's, kStep of each in a row. Both terms keep the lanes that lie right
// already (a blend, which any unit does) and fetch the others (one shuffle, for
// which units are few); so half of the sums have their terms the other way
// round, which changes no bit.
template <int kStep>
inline F32x16 AddAndPack(F32x16 a, F32x16 b) {
  static_assert(kStep == 8 || kStep == 4 || kStep == 2 || kStep == 1);
  constexpr __mmask16 kFromB = kStep == 8   ? 0xff00
                               : kStep == 4 ? 0xf0f0
                               : kStep == 2 ? 0xcccc
                                            : 0xaaaa;
  const __m512 kept = _mm512_mask_blend_ps(kFromB, a.v, b.v);
  __m512 fetched;
  if constexpr (kStep == 8) {
    fetched = _mm512_shuffle_f32x4(a.v, b.v, 0x4e);
  } else if constexpr (kStep == 2) {
    fetched = _mm512_shuffle_ps(a.v, b.v, 0x4e);
  } else {
    fetched = _mm512_mask_blend_ps(kFromB, b.v, a.v);
    fetched = kStep == 4 ? _mm512_shuffle_f32x4(fetched, fetched, 0xb1)
                         : _mm512_permute_ps(fetched, 0xb1);
  }
  return {_mm512_add_ps(kept, fetched)};
}

// Lane i is HorizontalSum(v[i]), by the same tree for all sixteen at once. What
// lies in memory is loaded whole: GCC would blend from there, by masked loads,
// which wait until what was just stored has reached the cache.
inline F32x16 HorizontalSums(const F32x16* v) {
  F32x16 by_eight[8];  // Eight lanes of v[i], eight of v[i + 8].
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    F32x16 a = v[i];
    F32x16 b = v[i + 8];
    asm("" : "+v"(a.v), "+v"(b.v));
    by_eight[i] = AddAndPack<8>(a, b);
  }
  F32x16 by_four[4];  // Four lanes each of v[i], v[i + 4], v[i + 8], v[i + 12].
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i)
    by_four[i] = AddAndPack<4>(by_eight[i], by_eight[i + 4]);
  return AddAndPack<1>(AddAndPack<2>(by_four[0], by_four[2]),
                       AddAndPack<2>(by_four[1], by_four[3]));
}

}  // namespace phalanx::PHALANX_ISA

#endif  // PHALANX_KERNELS_CPU_VEC_AVX512_H_
