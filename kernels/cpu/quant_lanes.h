#ifndef PHALANX_KERNELS_CPU_QUANT_LANES_H_
#define PHALANX_KERNELS_CPU_QUANT_LANES_H_

// The byte products of quant_tile.h in each instruction set. All are exact, so
// all give the same bits. A class of lanes has
//
//   kOutputs, kBytes   outputs of a vector, and bytes of their codes
//   Codes              4 columns of kOutputs outputs, u8
//   Sums               one i32 an output
//   kQuadBytes         of 4 codes of x, s8, as StoreQuads writes them
//   Quad               4 codes of x, for every output
//   Add(s, c, q)       s + the 4 products of c and q
//   Prefetch(p)        asks for a line of codes that will be read later
//   PrefetchNear(p)    for one that will be read in a moment
//   AddScaled          out <- fma(float(s) * x_scale, scale, out)
//   kMaxRows           rows of a block that fill the registers
//
// vpmaddubsw is of no use: it saturates pairs of products.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/bf16.h"
#include "kernels/cpu/packed_layout.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace phalanx::PHALANX_ISA {

// Codes of x in s16 for the sets that multiply words: columns 0, 2, 1, 3, since
// the even bytes of a vector of codes and its odd ones are words by a mask and
// by a shift.
inline void StoreWordQuads(const int8_t* codes, int64_t quads, std::byte* to) {
  for (int64_t i = 0; i < quads; ++i) {
    const int8_t* c = codes + 4 * i;
    const int16_t words[4] = {c[0], c[2], c[1], c[3]};
    std::memcpy(to + i * sizeof(words), words, sizeof(words));
  }
}

#if defined(__AVX512F__)

// What AVX-512 does for either byte product.
struct Avx512Lanes {
  static constexpr int kOutputs = 16;
  static constexpr int kBytes = 64;
  static constexpr int kMaxRows = 12;
  using Codes = __m512i;
  using Sums = __m512i;

  static Sums All(int32_t x) { return _mm512_set1_epi32(x); }
  static Codes Load(const std::byte* from) { return _mm512_load_si512(from); }
  static void LoadHalves(const std::byte* from, Codes& low, Codes& high) {
    const __m512i mask = _mm512_set1_epi8(0x0f);
    const __m512i both = Load(from);
    low = _mm512_and_si512(both, mask);
    high = _mm512_and_si512(_mm512_srli_epi16(both, 4), mask);
  }
  // Into the second-level cache: what is asked for is often a whole tile, which
  // the nearest one does not hold.
  static void Prefetch(const std::byte* at) { _mm_prefetch(at, _MM_HINT_T1); }
  static void PrefetchNear(const std::byte* at) {
    _mm_prefetch(at, _MM_HINT_T0);
  }
  static __m512 Scales(const std::byte* from) {
    const __m256i narrow =
        _mm256_load_si256(reinterpret_cast<const __m256i*>(from));
    return _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(narrow), 16));
  }
  static void AddScaled(Sums sums, float x_scale, __m512 scale, float* out) {
    const __m512 d =
        _mm512_mul_ps(_mm512_cvtepi32_ps(sums), _mm512_set1_ps(x_scale));
    _mm512_storeu_ps(out, _mm512_fmadd_ps(d, scale, _mm512_loadu_ps(out)));
  }
};

// Any processor with AVX-512.
struct WordLanes : Avx512Lanes {
  static constexpr int64_t kQuadBytes = 8;
  struct Quad {
    __m512i even, odd;
    explicit Quad(const std::byte* x) {
      int32_t words[2];
      std::memcpy(words, x, sizeof(words));
      even = _mm512_set1_epi32(words[0]);
      odd = _mm512_set1_epi32(words[1]);
    }
  };
  static void StoreQuads(const int8_t* codes, int64_t quads, std::byte* to) {
    StoreWordQuads(codes, quads, to);
  }
  static Sums Add(Sums sums, Codes codes, const Quad& x) {
    const __m512i even = _mm512_and_si512(codes, _mm512_set1_epi16(0x00ff));
    const __m512i odd = _mm512_srli_epi16(codes, 8);
    return _mm512_add_epi32(sums,
                            _mm512_add_epi32(_mm512_madd_epi16(even, x.even),
                                             _mm512_madd_epi16(odd, x.odd)));
  }
};

// Processors with AVX512_VNNI: one vpdpbusd.
struct VnniLanes : Avx512Lanes {
  static constexpr int64_t kQuadBytes = 4;
  struct Quad {
    __m512i all;
    explicit Quad(const std::byte* x) {
      int32_t bytes;
      std::memcpy(&bytes, x, sizeof(bytes));
      all = _mm512_set1_epi32(bytes);
    }
  };
  static void StoreQuads(const int8_t* codes, int64_t quads, std::byte* to) {
    std::memcpy(to, codes, static_cast<size_t>(quads) * 4);
  }
  // GCC 12 copies and spills accumulators of the intrinsic (2.5 times slower).
  static Sums Add(Sums sums, Codes codes, const Quad& x) {
    asm("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(codes), "v"(x.all));
    return sums;
  }
};

#elif defined(__AVX2__)

struct WordLanes {
  static constexpr int kOutputs = 8;
  static constexpr int kBytes = 32;
  static constexpr int kMaxRows = 2;
  static constexpr int64_t kQuadBytes = 8;
  using Codes = __m256i;
  using Sums = __m256i;
  struct Quad {
    __m256i even, odd;
    explicit Quad(const std::byte* x) {
      int32_t words[2];
      std::memcpy(words, x, sizeof(words));
      even = _mm256_set1_epi32(words[0]);
      odd = _mm256_set1_epi32(words[1]);
    }
  };
  static void StoreQuads(const int8_t* codes, int64_t quads, std::byte* to) {
    StoreWordQuads(codes, quads, to);
  }
  static Sums All(int32_t x) { return _mm256_set1_epi32(x); }
  static Codes Load(const std::byte* from) {
    return _mm256_load_si256(reinterpret_cast<const __m256i*>(from));
  }
  static void LoadHalves(const std::byte* from, Codes& low, Codes& high) {
    const __m256i mask = _mm256_set1_epi8(0x0f);
    const __m256i both = Load(from);
    low = _mm256_and_si256(both, mask);
    high = _mm256_and_si256(_mm256_srli_epi16(both, 4), mask);
  }
  static Sums Add(Sums sums, Codes codes, const Quad& x) {
    const __m256i even = _mm256_and_si256(codes, _mm256_set1_epi16(0x00ff));
    const __m256i odd = _mm256_srli_epi16(codes, 8);
    return _mm256_add_epi32(sums,
                            _mm256_add_epi32(_mm256_madd_epi16(even, x.even),
                                             _mm256_madd_epi16(odd, x.odd)));
  }
  static void Prefetch(const std::byte* at) { _mm_prefetch(at, _MM_HINT_T1); }
  static void PrefetchNear(const std::byte* at) {
    _mm_prefetch(at, _MM_HINT_T0);
  }
  static __m256 Scales(const std::byte* from) {
    const __m128i narrow =
        _mm_load_si128(reinterpret_cast<const __m128i*>(from));
    return _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_cvtepu16_epi32(narrow), 16));
  }
  static void AddScaled(Sums sums, float x_scale, __m256 scale, float* out) {
    const __m256 d =
        _mm256_mul_ps(_mm256_cvtepi32_ps(sums), _mm256_set1_ps(x_scale));
    _mm256_storeu_ps(out, _mm256_fmadd_ps(d, scale, _mm256_loadu_ps(out)));
  }
};

#else

struct WordLanes {
  static constexpr int kOutputs = kTileOutputs;
  static constexpr int kBytes = 4 * kTileOutputs;
  static constexpr int kMaxRows = 4;
  static constexpr int64_t kQuadBytes = 8;
  struct Codes {
    uint32_t v[kOutputs];
  };
  struct Sums {
    int32_t v[kOutputs];
  };
  struct Quad {
    int16_t v[4];
    explicit Quad(const std::byte* x) { std::memcpy(v, x, sizeof(v)); }
  };
  struct Floats {
    float v[kOutputs];
  };
  static void StoreQuads(const int8_t* codes, int64_t quads, std::byte* to) {
    StoreWordQuads(codes, quads, to);
  }
  static Sums All(int32_t x) {
    Sums sums;
    for (int32_t& s : sums.v) s = x;
    return sums;
  }
  static Codes Load(const std::byte* from) {
    Codes codes;
    std::memcpy(&codes, from, sizeof(codes));
    return codes;
  }
  static void LoadHalves(const std::byte* from, Codes& low, Codes& high) {
    const Codes both = Load(from);
    for (int n = 0; n < kOutputs; ++n) {
      low.v[n] = both.v[n] & 0x0f0f0f0fu;
      high.v[n] = both.v[n] >> 4 & 0x0f0f0f0fu;
    }
  }
  static Sums Add(Sums sums, const Codes& codes, const Quad& x) {
    for (int n = 0; n < kOutputs; ++n) {
      const uint32_t c = codes.v[n];
      sums.v[n] += static_cast<int32_t>(c & 0xff) * x.v[0] +
                   static_cast<int32_t>(c >> 16 & 0xff) * x.v[1] +
                   static_cast<int32_t>(c >> 8 & 0xff) * x.v[2] +
                   static_cast<int32_t>(c >> 24) * x.v[3];
    }
    return sums;
  }
  static void Prefetch(const std::byte*) {}
  static void PrefetchNear(const std::byte*) {}
  static Floats Scales(const std::byte* from) {
    uint16_t narrow[kOutputs];
    std::memcpy(narrow, from, sizeof(narrow));
    Floats scales;
    for (int n = 0; n < kOutputs; ++n) scales.v[n] = Bf16ToF32(narrow[n]);
    return scales;
  }
  static void AddScaled(const Sums& sums, float x_scale, const Floats& scale,
                        float* out) {
    for (int n = 0; n < kOutputs; ++n) {
      out[n] = __builtin_fmaf(static_cast<float>(sums.v[n]) * x_scale,
                              scale.v[n], out[n]);
    }
  }
};

#endif

}  // namespace phalanx::PHALANX_ISA

#endif  // PHALANX_KERNELS_CPU_QUANT_LANES_H_
