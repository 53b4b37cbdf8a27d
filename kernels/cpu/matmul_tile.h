#ifndef PHALANX_KERNELS_CPU_MATMUL_TILE_H_
#define PHALANX_KERNELS_CPU_MATMUL_TILE_H_

// The innermost part of every matrix product: a block of rows of x times a tile
// of 32 outputs, one accumulator an output. Compiled once for each instruction
// set.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/bf16.h"
#include "kernels/cpu/packed_layout.h"
#include "kernels/cpu/vec.h"
#include "kernels/weight_format.h"

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace phalanx::PHALANX_ISA {

// Rows of a block: as many as a family says (D::kMaxRows), and never more than
// this. 24 accumulators, 4 weights, a mask and a broadcast fill 30 of 32
// registers.
inline constexpr int kMaxBlockRows = 12;

// Most floats that one call of a DotFn writes: rows x tiles x 32.
inline constexpr int kMaxDotFloats = kMaxBlockRows * kTileOutputs;

// One matrix as a product reads it. cols is cut into `slices` chains.
struct WeightView {
  const std::byte* data = nullptr;
  int64_t tile_bytes = 0;  // From one tile of 32 outputs to the next.
  int64_t cols = 0;
  int slices = 1;
  WeightGroups groups;  // Of the columns; int8 and int4 alone.
  // From memory, not from a cache: tiles are read one after another, since two
  // streams lose up to a fifth of the bandwidth where slices are short.
  bool streamed = false;

  const std::byte* tile(int64_t index) const {
    return data + index * tile_bytes;
  }
};

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

// Fills a block of a panel with `count` rows, chunk by chunk.
template <typename D>
void LoadPanel(const uint16_t* const* rows, int64_t count, int64_t cols,
               typename D::Element* panel) {
  for (int64_t r = 0; r < count; ++r) {
    for (int64_t k = 0; k < cols; k += kPanelCols) {
      const int64_t left = cols - k;
      D::Load(rows[r] + k, left < kPanelCols ? left : kPanelCols,
              panel + (k / kPanelCols * count + r) * kPanelStride);
    }
  }
}

// Which weights will be read soon, in bytes after those that are read now: a
// kernel may ask for them while it reads two cache lines, a step of columns.
// What is asked for faster than memory gives it is forgotten by the processor.
struct Ahead {
  int64_t one = 0;
  int64_t other = 0;
  // In a moment, by the block that asks, which reads nothing else.
  bool soon = false;

  static constexpr int64_t kLineBytes = 64;
  static Ahead Both(int64_t distance) {
    return {.one = distance, .other = distance + kLineBytes};
  }
  static Ahead Soon(int64_t distance) {
    return {.one = distance, .other = distance + kLineBytes, .soon = true};
  }
  // For blocks that read the same one after another: every other line each, so
  // half as fast.
  static Ahead InTurns(int64_t distance, int64_t block) {
    const int64_t line = distance + block % 2 * kLineBytes;
    return {.one = line, .other = line};
  }
};

// out[row][tile * 32 + lane] = slice `slice` of the products of a block of
// panel rows, from 0, with neighbouring tiles, of which `tile` is the first.
using DotFn = void (*)(const std::byte* panel, const std::byte* tile,
                       const WeightView& w, int slice, Ahead ahead, float* out);

// For slices [first, last), each in a plane of its own, `plane_floats` after
// the one before:
//   planes[row_at[row] + tile * 32 + lane] += factors[row] * DotFn's result
using AddDotsFn = void (*)(const std::byte* panel, const std::byte* tile,
                           const WeightView& w, int first, int last,
                           Ahead ahead, const float* factors,
                           const int64_t* row_at, float* planes,
                           int64_t plane_floats);

// The kernels of one row count: `wide` takes wide_tiles tiles at a time, so
// that few rows still have enough chains in flight to hide the latency.
struct DotKernels {
  DotFn one = nullptr;
  DotFn wide = nullptr;
  AddDotsFn add_one = nullptr;
  AddDotsFn add_wide = nullptr;
  int wide_tiles = 1;
};

// Tiles that few rows take at a time, so that enough chains are in flight; a
// family says up to how many rows it needs that.
template <typename D>
constexpr int WideTiles(int rows) {
  if (rows > D::kWideRows) return 1;
  return rows == 1 ? 4 : 2;
}

// With more rows than this a product has time to ask for memory ahead. With
// fewer it waits for memory, which the processor prefetches better by itself.
//
// A family says in kStreamAhead how far ahead to ask in one stream, if one
// block of rows reads it alone and has more of them than kUnaidedRows: up to
// that it reads faster by the processor's own prefetching.
inline constexpr int kStreamRows = 4;

// Calls step(panel at k, tile at k) for each pair of columns in order.
template <int kRows, typename Element, typename Step>
inline __attribute__((always_inline)) void ForColumnPairs(
    const std::byte* panel_bytes, const std::byte* tile_bytes,
    const WeightView& view, int slice, const Step& step) {
  const auto* panel = reinterpret_cast<const Element*>(panel_bytes);
  const auto* tile = reinterpret_cast<const uint16_t*>(tile_bytes);
  const int64_t slice_cols = view.cols / view.slices;
  const int64_t first = slice * slice_cols;
  const int64_t last = first + slice_cols;
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

// Calls body(0) .. body(count - 1), each with a constant, so that arrays which
// it indexes live in registers from the start: unrolled later, they are stored
// and loaded once a call.
template <int kCount, typename Body>
inline __attribute__((always_inline)) void Unrolled(const Body& body) {
  [&]<int... i>(std::integer_sequence<int, i...>)
      __attribute__((always_inline)) {
    (body(std::integral_constant<int, i>()), ...);
  }
  (std::make_integer_sequence<int, kCount>());
}

// Kernel family fma: bf16 widened to f32, one fused multiply-add a column. The
// same bits from every instruction set.
struct FmaDot {
  using Element = float;
  static constexpr int kMaxRows = 12;
  static constexpr int kWideRows = 3;
  static constexpr int kUnaidedRows = kStreamRows;
  static constexpr int64_t kStreamAhead = 8192;

  // Widens columns of one row into its panel chunk.
  static void Load(const uint16_t* x, int64_t count, float* panel) {
    for (int64_t i = 0; i < count; ++i) panel[i] = Bf16ToF32(x[i]);
  }

  // What one row takes of a panel, in bytes.
  static int64_t PanelRowBytes(const WeightView& w) {
    return PanelRowElements(w.cols) * static_cast<int64_t>(sizeof(Element));
  }
  static void LoadBlock(const uint16_t* const* rows, int64_t count,
                        const WeightView& w, std::byte* panel) {
    LoadPanel<FmaDot>(rows, count, w.cols, reinterpret_cast<Element*>(panel));
  }

  template <int kRows, int kTiles>
  static void Dot(const std::byte* panel, const std::byte* tile,
                  const WeightView& w, int slice, Ahead ahead, float* out);
};

#if defined(__AVX512F__)

// Asks for two lines, into the second-level cache.
template <int kRows>
inline __attribute__((always_inline)) void PrefetchAhead(const uint16_t* w,
                                                         Ahead ahead) {
  if constexpr (kRows > kStreamRows) {
    const auto* at = reinterpret_cast<const char*>(w);
    _mm_prefetch(at + ahead.one, _MM_HINT_T1);
    _mm_prefetch(at + ahead.other, _MM_HINT_T1);
  }
}

// The accumulators of a block of rows and some tiles.
template <int kRows, int kVectors>
struct Accumulators {
  __m512 sums[kRows][kVectors];

  __attribute__((always_inline)) Accumulators() {
    Unrolled<kRows>([&](auto r) __attribute__((always_inline)) {
      Unrolled<kVectors>([&](auto v) __attribute__((always_inline)) {
        sums[r][v] = _mm512_setzero_ps();
      });
    });
  }
  __attribute__((always_inline)) void StoreTo(float* out) const {
    Unrolled<kRows>([&](auto r) __attribute__((always_inline)) {
      Unrolled<kVectors>([&](auto v) __attribute__((always_inline)) {
        _mm512_storeu_ps(out + (r * kVectors + v) * 16, sums[r][v]);
      });
    });
  }
};

template <int kRows, int kTiles>
void FmaDot::Dot(const std::byte* panel, const std::byte* tile,
                 const WeightView& view, int slice, Ahead ahead, float* out) {
  constexpr int kVectors = 2 * kTiles;
  const int64_t tile_elements = view.tile_bytes / 2;
  Accumulators<kRows, kVectors> acc;
  const __m512i high_half = _mm512_set1_epi32(static_cast<int>(0xffff0000u));

  ForColumnPairs<kRows, float>(
      panel, tile, view, slice,
      [&](const float* x, const uint16_t* w) __attribute__((always_inline)) {
        PrefetchAhead<kRows>(w, ahead);
        __m512 even[kVectors];
        __m512 odd[kVectors];
        Unrolled<kVectors>([&](auto v) __attribute__((always_inline)) {
          const __m512i pair =
              _mm512_load_si512(w + v / 2 * tile_elements + v % 2 * 32);
          even[v] = _mm512_castsi512_ps(_mm512_slli_epi32(pair, 16));
          odd[v] = _mm512_castsi512_ps(_mm512_and_si512(pair, high_half));
        });
        Unrolled<kRows>([&](auto r) __attribute__((always_inline)) {
          const __m512 xr = _mm512_set1_ps(x[r * kPanelStride]);
          Unrolled<kVectors>([&](auto v) __attribute__((always_inline)) {
            acc.sums[r][v] = _mm512_fmadd_ps(xr, even[v], acc.sums[r][v]);
          });
        });
        Unrolled<kRows>([&](auto r) __attribute__((always_inline)) {
          const __m512 xr = _mm512_set1_ps(x[r * kPanelStride + 1]);
          Unrolled<kVectors>([&](auto v) __attribute__((always_inline)) {
            acc.sums[r][v] = _mm512_fmadd_ps(xr, odd[v], acc.sums[r][v]);
          });
        });
      });
  acc.StoreTo(out);
}

#elif defined(__AVX2__)

}  // namespace phalanx::PHALANX_ISA
#include "kernels/cpu/matmul_tile_avx2.h"
namespace phalanx::PHALANX_ISA {

#else

template <int kRows, int kTiles>
void FmaDot::Dot(const std::byte* panel, const std::byte* tile,
                 const WeightView& view, int slice, Ahead, float* out) {
  const int64_t tile_elements = view.tile_bytes / 2;
  for (int i = 0; i < kRows * kTiles * kTileOutputs; ++i) out[i] = 0.0f;
  ForColumnPairs<kRows, float>(
      panel, tile, view, slice, [&](const float* x, const uint16_t* w) {
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
  static constexpr int kMaxRows = 12;
  static constexpr int kWideRows = 3;
  static constexpr int kUnaidedRows = kStreamRows;
  static constexpr int64_t kStreamAhead = 8192;

  static void Load(const uint16_t* x, int64_t count, uint16_t* panel) {
    for (int64_t i = 0; i < count; ++i) panel[i] = x[i];
  }

  // What one row takes of a panel, in bytes.
  static int64_t PanelRowBytes(const WeightView& w) {
    return PanelRowElements(w.cols) * static_cast<int64_t>(sizeof(Element));
  }
  static void LoadBlock(const uint16_t* const* rows, int64_t count,
                        const WeightView& w, std::byte* panel) {
    LoadPanel<Bf16Dot>(rows, count, w.cols, reinterpret_cast<Element*>(panel));
  }

  template <int kRows, int kTiles>
  static void Dot(const std::byte* panel, const std::byte* tile,
                  const WeightView& view, int slice, Ahead ahead, float* out) {
    constexpr int kVectors = 2 * kTiles;
    const int64_t tile_elements = view.tile_bytes / 2;
    Accumulators<kRows, kVectors> acc;

    ForColumnPairs<kRows, uint16_t>(
        panel, tile, view, slice,
        [&](const uint16_t* x,
            const uint16_t* w) __attribute__((always_inline)) {
          PrefetchAhead<kRows>(w, ahead);
          __m512bh pair[kVectors];
          Unrolled<kVectors>([&](auto v) __attribute__((always_inline)) {
            pair[v] = reinterpret_cast<__m512bh>(
                _mm512_load_si512(w + v / 2 * tile_elements + v % 2 * 32));
          });
          Unrolled<kRows>([&](auto r) __attribute__((always_inline)) {
            int bits;
            __builtin_memcpy(&bits, x + r * kPanelStride, sizeof(bits));
            const auto xr = reinterpret_cast<__m512bh>(_mm512_set1_epi32(bits));
            Unrolled<kVectors>([&](auto v) __attribute__((always_inline)) {
              acc.sums[r][v] = _mm512_dpbf16_ps(acc.sums[r][v], xr, pair[v]);
            });
          });
        });
    acc.StoreTo(out);
  }
};

#endif

// Flattened, so that the products stay in registers until they are added.
template <typename D, int kRows, int kTiles>
__attribute__((flatten)) void AddDots(const std::byte* panel,
                                      const std::byte* tile,
                                      const WeightView& w, int first, int last,
                                      Ahead ahead, const float* factors,
                                      const int64_t* row_at, float* planes,
                                      int64_t plane_floats) {
  constexpr int kVectors = kTiles * kTileOutputs / kLanes;
  for (int s = first; s < last; ++s, planes += plane_floats) {
    alignas(64) float dots[kRows * kVectors * kLanes];
    D::template Dot<kRows, kTiles>(panel, tile, w, s, ahead, dots);
    Unrolled<kRows>([&](auto r) __attribute__((always_inline)) {
      const F32x16 factor = Broadcast(factors[r]);
      float* sums = planes + row_at[r];
      Unrolled<kVectors>([&](auto v) __attribute__((always_inline)) {
        const F32x16 dot = Load(dots + (r * kVectors + v) * kLanes);
        Store(sums + v * kLanes, Fma(factor, dot, Load(sums + v * kLanes)));
      });
    });
  }
}

template <typename D, int kRows>
constexpr DotKernels DotKernelsOf() {
  constexpr int kWide = WideTiles<D>(kRows);
  return {D::template Dot<kRows, 1>, D::template Dot<kRows, kWide>,
          AddDots<D, kRows, 1>, AddDots<D, kRows, kWide>, kWide};
}

template <typename D, int... kRows>
constexpr std::array<DotKernels, sizeof...(kRows) + 1> DotKernelsFor(
    std::integer_sequence<int, kRows...>) {
  return {{{}, DotKernelsOf<D, kRows + 1>()...}};
}

// By number of rows, 1 .. D::kMaxRows.
template <typename D>
inline constexpr auto kDotKernels =
    DotKernelsFor<D>(std::make_integer_sequence<int, D::kMaxRows>());

}  // namespace phalanx::PHALANX_ISA

#endif  // PHALANX_KERNELS_CPU_MATMUL_TILE_H_
