#ifndef PHALANX_KERNELS_CPU_MATMUL_TILE_H_
#define PHALANX_KERNELS_CPU_MATMUL_TILE_H_

// The innermost part of every matrix product: a block of rows of x times a tile
// of 32 outputs, one accumulator an output. Compiled once for each instruction
// set.

#include <cstdint>
#include <cstring>

#include "kernels/bf16.h"
#include "kernels/cpu/packed_layout.h"

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace phalanx::PHALANX_ISA {

// 24 accumulators, 4 weights, a mask and a broadcast fill 30 of 32 registers.
inline constexpr int kMaxBlockRows = 12;

// Most floats that one call of a DotFn writes: rows x tiles x 32.
inline constexpr int kMaxDotFloats = kMaxBlockRows * kTileOutputs;

// A panel holds a block of x rows as the dot product wants them, cut into
// chunks of columns: [chunk][row][stride]. The stride is constant so that all
// rows are reached from one register, and is no power of two so that rows fall
// into different cache sets.
inline constexpr int64_t kPanelCols = 256;
inline constexpr int64_t kPanelStride = kPanelCols + 16;

// Panel elements of one row of `cols` columns.
constexpr int64_t PanelRowElements(int64_t cols) {
  return (cols + kPanelCols - 1) / kPanelCols * kPanelStride;
}

// out[row][tile * 32 + lane] = the chain over columns first .. last - 1, from
// 0, of a block of `rows` panel rows and neighbouring tiles. first and last are
// even.
template <typename Element>
using DotFn = void (*)(const Element* panel, const uint16_t* tile,
                       int64_t tile_elements, int64_t first, int64_t last,
                       float* out);

// The kernels of one row count: `wide` takes wide_tiles tiles at a time, so
// that few rows still have enough chains in flight to hide the latency.
template <typename Element>
struct DotKernels {
  DotFn<Element> one = nullptr;
  DotFn<Element> wide = nullptr;
  int wide_tiles = 1;
};

constexpr int WideTiles(int rows) { return rows == 1 ? 4 : rows <= 3 ? 2 : 1; }

// Calls step(k, panel at k, tile at k) for each pair of columns in order.
template <int kRows, typename Element, typename Step>
inline __attribute__((always_inline)) void ForColumnPairs(const Element* panel,
                                                          const uint16_t* tile,
                                                          int64_t first,
                                                          int64_t last,
                                                          const Step& step) {
  for (int64_t k = first; k < last;) {
    const int64_t chunk = k / kPanelCols;
    const int64_t chunk_end = (chunk + 1) * kPanelCols;
    const int64_t end = last < chunk_end ? last : chunk_end;
    const Element* x =
        panel + chunk * kRows * kPanelStride + (k - chunk * kPanelCols);
    const uint16_t* w = tile + k * kTileOutputs;
#pragma GCC unroll 2
    for (; k < end; k += 2, x += 2, w += 2 * kTileOutputs) step(x, w);
  }
}

// Kernel family fma: bf16 widened to f32, one fused multiply-add a column. The
// same bits from every instruction set.
struct FmaDot {
  using Element = float;

  // Widens columns of one row into its panel chunk.
  static void Load(const uint16_t* x, int64_t count, float* panel) {
    for (int64_t i = 0; i < count; ++i) panel[i] = Bf16ToF32(x[i]);
  }

  template <int kRows, int kTiles>
  static void Dot(const float* panel, const uint16_t* tile,
                  int64_t tile_elements, int64_t first, int64_t last,
                  float* out);
};

#if defined(__AVX512F__)

// With few rows a product waits for memory, and asks for weights this many
// elements ahead (0.86 of the read bandwidth became 0.92).
inline constexpr int kPrefetchRows = 4;
inline constexpr int64_t kPrefetchAhead = 2048;

template <int kRows>
inline __m512i LoadWeights(const uint16_t* at) {
  if constexpr (kRows <= kPrefetchRows)
    _mm_prefetch(at + kPrefetchAhead, _MM_HINT_T0);
  return _mm512_load_si512(at);
}

template <int kRows, int kTiles>
void FmaDot::Dot(const float* panel, const uint16_t* tile,
                 int64_t tile_elements, int64_t first, int64_t last,
                 float* out) {
  constexpr int kVectors = 2 * kTiles;
  __m512 acc[kRows][kVectors];
  for (auto& row : acc)
    for (__m512& a : row) a = _mm512_setzero_ps();
  const __m512i high_half = _mm512_set1_epi32(static_cast<int>(0xffff0000u));

  ForColumnPairs<kRows>(
      panel, tile, first, last, [&](const float* x, const uint16_t* w) {
        __m512 even[kVectors];
        __m512 odd[kVectors];
        for (int v = 0; v < kVectors; ++v) {
          const __m512i pair =
              LoadWeights<kRows>(w + v / 2 * tile_elements + v % 2 * 32);
          even[v] = _mm512_castsi512_ps(_mm512_slli_epi32(pair, 16));
          odd[v] = _mm512_castsi512_ps(_mm512_and_si512(pair, high_half));
        }
        for (int r = 0; r < kRows; ++r) {
          const __m512 xr = _mm512_set1_ps(x[r * kPanelStride]);
          for (int v = 0; v < kVectors; ++v)
            acc[r][v] = _mm512_fmadd_ps(xr, even[v], acc[r][v]);
        }
        for (int r = 0; r < kRows; ++r) {
          const __m512 xr = _mm512_set1_ps(x[r * kPanelStride + 1]);
          for (int v = 0; v < kVectors; ++v)
            acc[r][v] = _mm512_fmadd_ps(xr, odd[v], acc[r][v]);
        }
      });

  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v)
      _mm512_storeu_ps(out + (r * kVectors + v) * 16, acc[r][v]);
}

#else

template <int kRows, int kTiles>
void FmaDot::Dot(const float* panel, const uint16_t* tile,
                 int64_t tile_elements, int64_t first, int64_t last,
                 float* out) {
  for (int i = 0; i < kRows * kTiles * kTileOutputs; ++i) out[i] = 0.0f;
  ForColumnPairs<kRows>(
      panel, tile, first, last, [&](const float* x, const uint16_t* w) {
        for (int r = 0; r < kRows; ++r) {
          for (int n = 0; n < kTiles * kTileOutputs; ++n) {
            const uint16_t* pair =
                w + n / kTileOutputs * tile_elements + n % kTileOutputs * 2;
            float& sum = out[r * kTiles * kTileOutputs + n];
            sum = __builtin_fmaf(x[r * kPanelStride], Bf16ToF32(pair[0]), sum);
            sum = __builtin_fmaf(x[r * kPanelStride + 1], Bf16ToF32(pair[1]),
                                 sum);
          }
        }
      });
}

#endif

#if defined(__AVX512BF16__)

// Kernel family bf16dot: one vdpbf16ps a pair of columns.
struct Bf16Dot {
  using Element = uint16_t;

  static void Load(const uint16_t* x, int64_t count, uint16_t* panel) {
    for (int64_t i = 0; i < count; ++i) panel[i] = x[i];
  }

  template <int kRows, int kTiles>
  static void Dot(const uint16_t* panel, const uint16_t* tile,
                  int64_t tile_elements, int64_t first, int64_t last,
                  float* out) {
    constexpr int kVectors = 2 * kTiles;
    __m512 acc[kRows][kVectors];
    for (auto& row : acc)
      for (__m512& a : row) a = _mm512_setzero_ps();

    ForColumnPairs<kRows>(
        panel, tile, first, last, [&](const uint16_t* x, const uint16_t* w) {
          __m512i pair[kVectors];
          for (int v = 0; v < kVectors; ++v)
            pair[v] =
                LoadWeights<kRows>(w + v / 2 * tile_elements + v % 2 * 32);
          for (int r = 0; r < kRows; ++r) {
            int bits;
            __builtin_memcpy(&bits, x + r * kPanelStride, sizeof(bits));
            const __m512i xr = _mm512_set1_epi32(bits);
            for (int v = 0; v < kVectors; ++v) {
              acc[r][v] =
                  _mm512_dpbf16_ps(acc[r][v], reinterpret_cast<__m512bh>(xr),
                                   reinterpret_cast<__m512bh>(pair[v]));
            }
          }
        });

    for (int r = 0; r < kRows; ++r)
      for (int v = 0; v < kVectors; ++v)
        _mm512_storeu_ps(out + (r * kVectors + v) * 16, acc[r][v]);
  }
};

#endif

template <typename D, int kRows>
constexpr DotKernels<typename D::Element> DotKernelsOf() {
  return {D::template Dot<kRows, 1>, D::template Dot<kRows, WideTiles(kRows)>,
          WideTiles(kRows)};
}

// By number of rows, 1 .. kMaxBlockRows.
template <typename D>
inline constexpr DotKernels<typename D::Element>
    kDotKernels[kMaxBlockRows + 1] = {
        {},
        DotKernelsOf<D, 1>(),
        DotKernelsOf<D, 2>(),
        DotKernelsOf<D, 3>(),
        DotKernelsOf<D, 4>(),
        DotKernelsOf<D, 5>(),
        DotKernelsOf<D, 6>(),
        DotKernelsOf<D, 7>(),
        DotKernelsOf<D, 8>(),
        DotKernelsOf<D, 9>(),
        DotKernelsOf<D, 10>(),
        DotKernelsOf<D, 11>(),
        DotKernelsOf<D, 12>(),
};

}  // namespace phalanx::PHALANX_ISA

#endif  // PHALANX_KERNELS_CPU_MATMUL_TILE_H_
