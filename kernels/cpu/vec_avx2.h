#ifndef PHALANX_KERNELS_CPU_VEC_AVX2_H_
#define PHALANX_KERNELS_CPU_VEC_AVX2_H_

// vec.h for AVX2 and FMA: two registers of eight lanes. Included by vec.h
// alone, which says what the operations mean.

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace phalanx::PHALANX_ISA {

struct I32x16 {
  __m256i low, high;
  static I32x16 All(int32_t x) {
    return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)};
  }
};
inline I32x16 operator+(I32x16 a, I32x16 b) {
  return {_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)};
}
inline I32x16 operator-(I32x16 a, I32x16 b) {
  return {_mm256_sub_epi32(a.low, b.low), _mm256_sub_epi32(a.high, b.high)};
}
inline I32x16 operator&(I32x16 a, I32x16 b) {
  return {_mm256_and_si256(a.low, b.low), _mm256_and_si256(a.high, b.high)};
}
inline I32x16 operator^(I32x16 a, I32x16 b) {
  return {_mm256_xor_si256(a.low, b.low), _mm256_xor_si256(a.high, b.high)};
}
template <int n>
inline I32x16 ShiftLeft(I32x16 a) {
  return {_mm256_slli_epi32(a.low, n), _mm256_slli_epi32(a.high, n)};
}
template <int n>
inline I32x16 ShiftRight(I32x16 a) {
  return {_mm256_srai_epi32(a.low, n), _mm256_srai_epi32(a.high, n)};
}

// All bits of a lane or none.
struct Mask16 {
  __m256i low, high;
};
inline Mask16 IsZero(I32x16 a) {
  const __m256i zero = _mm256_setzero_si256();
  return {_mm256_cmpeq_epi32(a.low, zero), _mm256_cmpeq_epi32(a.high, zero)};
}
inline Mask16 FirstLanes(int64_t n) {
  const __m256i count = _mm256_set1_epi32(static_cast<int>(n));
  return {_mm256_cmpgt_epi32(count, _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)),
          _mm256_cmpgt_epi32(count,
                             _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15))};
}

struct F32x16 {
  using Int = I32x16;
  __m256 low, high;
  static F32x16 All(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
};
inline F32x16 operator+(F32x16 a, F32x16 b) {
  return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
}
inline F32x16 operator-(F32x16 a, F32x16 b) {
  return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
}
inline F32x16 operator*(F32x16 a, F32x16 b) {
  return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
}
inline F32x16 operator/(F32x16 a, F32x16 b) {
  return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)};
}
inline F32x16 Fma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low),
          _mm256_fmadd_ps(a.high, b.high, c.high)};
}
inline F32x16 Sqrt(F32x16 a) {
  return {_mm256_sqrt_ps(a.low), _mm256_sqrt_ps(a.high)};
}
inline I32x16 AsInt(F32x16 a) {
  return {_mm256_castps_si256(a.low), _mm256_castps_si256(a.high)};
}
inline F32x16 AsFloat(I32x16 a) {
  return {_mm256_castsi256_ps(a.low), _mm256_castsi256_ps(a.high)};
}
inline F32x16 Abs(F32x16 a) {
  return AsFloat(AsInt(a) & I32x16::All(0x7fffffff));
}
// a where a > b, else b: b where either is NaN.
inline F32x16 Max(F32x16 a, F32x16 b) {
  return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
}
template <int kPredicate>
inline Mask16 Compare(F32x16 a, F32x16 b) {
  return {_mm256_castps_si256(_mm256_cmp_ps(a.low, b.low, kPredicate)),
          _mm256_castps_si256(_mm256_cmp_ps(a.high, b.high, kPredicate))};
}
inline Mask16 Less(F32x16 a, F32x16 b) { return Compare<_CMP_LT_OQ>(a, b); }
inline Mask16 IsNan(F32x16 a) { return Compare<_CMP_UNORD_Q>(a, a); }
inline F32x16 Select(Mask16 m, F32x16 a, F32x16 b) {
  return {_mm256_blendv_ps(b.low, a.low, _mm256_castsi256_ps(m.low)),
          _mm256_blendv_ps(b.high, a.high, _mm256_castsi256_ps(m.high))};
}

inline F32x16 Load(const float* p) {
  return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
inline void Store(float* p, F32x16 x) {
  _mm256_storeu_ps(p, x.low);
  _mm256_storeu_ps(p + 8, x.high);
}
inline F32x16 LoadTail(const float* p, int64_t n) {
  const Mask16 m = FirstLanes(n);
  return {_mm256_maskload_ps(p, m.low), _mm256_maskload_ps(p + 8, m.high)};
}
inline void StoreTail(float* p, F32x16 x, int64_t n) {
  const Mask16 m = FirstLanes(n);
  _mm256_maskstore_ps(p, m.low, x.low);
  _mm256_maskstore_ps(p + 8, m.high, x.high);
}

// bf16 in memory, widened; narrowed to nearest, ties to even, NaNs kept.
inline __m256 WidenHalf(__m128i bits) {
  return _mm256_castsi256_ps(
      _mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
// Each lane's bf16 in its lower half.
inline __m256i NarrowHalf(__m256 x) {
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i high = _mm256_srli_epi32(bits, 16);
  const __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_srli_epi32(
      _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))),
      16);
  const __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  return _mm256_blendv_epi8(rounded, quiet, nan);
}
inline F32x16 Load(const uint16_t* p) {
  const auto* halves = reinterpret_cast<const __m128i*>(p);
  return {WidenHalf(_mm_loadu_si128(halves)),
          WidenHalf(_mm_loadu_si128(halves + 1))};
}
inline void Store(uint16_t* p, F32x16 x) {
  // Packing works on halves of registers, so the middle quarters come swapped.
  const __m256i packed =
      _mm256_packus_epi32(NarrowHalf(x.low), NarrowHalf(x.high));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm256_permute4x64_epi64(packed, 0xd8));
}
inline F32x16 LoadTail(const uint16_t* p, int64_t n) {
  alignas(32) uint16_t lanes[16] = {};
  std::memcpy(lanes, p, static_cast<size_t>(n) * sizeof(uint16_t));
  return Load(lanes);
}
inline void StoreTail(uint16_t* p, F32x16 x, int64_t n) {
  alignas(32) uint16_t lanes[16];
  Store(lanes, x);
  std::memcpy(p, lanes, static_cast<size_t>(n) * sizeof(uint16_t));
}

// The tree adds lanes i and i + 8, then i + 4, i + 2, i + 1.
inline float HorizontalSum(F32x16 x) {
  const __m256 a = _mm256_add_ps(x.low, x.high);
  const __m128 b =
      _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}
inline float HorizontalMax(F32x16 x) {
  const __m256 a = _mm256_max_ps(x.low, x.high);
  const __m128 b =
      _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 c = _mm_max_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_max_ss(c, _mm_movehdup_ps(c)));
}

// Lane i is HorizontalSum(v[i]) for eight vectors, by the same tree: each step
// adds halves of two vectors and packs the sums into one.
inline __m256 HorizontalSumsOfEight(const F32x16* v) {
  __m256 by_four[4];  // Lane 4 k + j of by_four[i]: term j of v[i + 4 k].
  for (int i = 0; i < 4; ++i) {
    const __m256 a = _mm256_add_ps(v[i].low, v[i].high);
    const __m256 b = _mm256_add_ps(v[i + 4].low, v[i + 4].high);
    by_four[i] = _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20),
                               _mm256_permute2f128_ps(a, b, 0x31));
  }
  __m256 by_two[2];
  for (int i = 0; i < 2; ++i) {
    const __m256 a = by_four[2 * i];
    const __m256 b = by_four[2 * i + 1];
    by_two[i] = _mm256_add_ps(_mm256_shuffle_ps(a, b, 0x44),
                              _mm256_shuffle_ps(a, b, 0xee));
  }
  return _mm256_add_ps(_mm256_shuffle_ps(by_two[0], by_two[1], 0x88),
                       _mm256_shuffle_ps(by_two[0], by_two[1], 0xdd));
}
inline F32x16 HorizontalSums(const F32x16* v) {
  return {HorizontalSumsOfEight(v), HorizontalSumsOfEight(v + 8)};
}

}  // namespace phalanx::PHALANX_ISA

#endif  // PHALANX_KERNELS_CPU_VEC_AVX2_H_
