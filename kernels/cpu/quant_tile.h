#ifndef PHALANX_KERNELS_CPU_QUANT_TILE_H_
#define PHALANX_KERNELS_CPU_QUANT_TILE_H_

// A block of rows times a tile of an int8 or int4 weight, by the arithmetic of
// kernels/quantise.h: whole numbers, exact whatever the instructions and their
// order, and one f32 chain over the groups of a slice.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/bf16.h"
#include "kernels/cpu/matmul_tile.h"
#include "kernels/cpu/quant_lanes.h"
#include "kernels/quantise_group.h"

namespace phalanx::PHALANX_ISA {

// The kernels of `kFormat` with the byte products of `Lanes` (quant_lanes.h).
template <WeightFormat kFormat, typename Lanes>
struct IntDot {
  static constexpr int kMaxRows = Lanes::kMaxRows;
  // One stream of memory: the chains of one tile hide the latency of products.
  static constexpr int kWideRows = 0;
  // int8 at 8 rows: 0.73 of the read bandwidth with, 0.82 without (2 threads,
  // Zen 4); at 12 rows it helps.
  static constexpr int kUnaidedRows =
      kFormat == WeightFormat::kInt8 ? 8 : kStreamRows;
  // Into the nearest cache: 8 rows of int4 1.3 x as fast as into the second
  // level, 12 rows of int8 1.15 x (2 threads, Zen 4).
  static constexpr int64_t kStreamAhead = 2048;
  static constexpr int64_t kUnitCols = UnitCols(kFormat);
  // Quarters: 4 columns, which one byte product takes.
  static constexpr int64_t kUnitQuads = kUnitCols / 4;

  // A row of a group in a panel: the group's codes, zeros up to a whole unit,
  // and what every output's sum begins and ends with. The zero point of the
  // weights is folded into the beginning, so products take codes as they lie.
  struct Ends {
    float scale = 0.0f;
    int32_t begin = 0;  // -zero * sum of the codes.
  };
  static constexpr int64_t kEndsAt = kMaxGroupCols / 4 * Lanes::kQuadBytes;
  static constexpr int64_t kStride = kEndsAt + 16;
  static_assert(sizeof(Ends) <= 16);

  // Panels are [group][row][kStride].
  static int64_t PanelRowBytes(const WeightView& w) {
    return w.groups.count * kStride;
  }

  static void LoadBlock(const uint16_t* const* rows, int64_t count,
                        const WeightView& w, std::byte* panel) {
    const WeightGroups& groups = w.groups;
    int64_t at = 0;
    for (int64_t g = 0; g < groups.count; ++g) {
      const int64_t left = groups.slice_cols - at % groups.slice_cols;
      const int64_t cols = std::min(groups.cols, left);
      for (int64_t r = 0; r < count; ++r)
        LoadGroup(rows[r] + at, cols, panel + (g * count + r) * kStride);
      at += cols;
    }
  }

  template <int kRows, int kTiles>
  static void Dot(const std::byte* panel, const std::byte* tile,
                  const WeightView& view, int slice, Ahead ahead, float* out) {
    const WeightGroups& groups = view.groups;
    panel += slice * groups.per_slice * kRows * kStride;
    tile += slice * SliceBytes(kFormat, groups);
    for (int i = 0; i < kRows * kTiles * kTileOutputs; ++i) out[i] = 0.0f;
    for (int64_t left = groups.slice_cols; left > 0; left -= groups.cols) {
      const int64_t units = GroupUnits(kFormat, std::min(left, groups.cols));
      DotGroup<kRows, kTiles>(panel, tile, view.tile_bytes, units, ahead, out);
      panel += kRows * kStride;
      tile += kTileScaleBytes + units * kUnitBytes;
    }
  }

 private:
  static constexpr int kTileVectors = kTileOutputs / Lanes::kOutputs;
  using Sums = typename Lanes::Sums;
  using Codes = typename Lanes::Codes;
  using Quad = typename Lanes::Quad;

  static void LoadGroup(const uint16_t* x, int64_t cols, std::byte* to) {
    quantise::Group group;
    group.Load(x, cols);
    alignas(64) int8_t codes[kMaxGroupCols];
    const quantise::ActivationGroup result =
        quantise::Activations(group, codes);
    const int64_t padded = GroupUnits(kFormat, cols) * kUnitCols;
    for (int64_t i = cols; i < padded; ++i) codes[i] = 0;
    Lanes::StoreQuads(codes, padded / 4, to);
    const Ends ends{result.scale, -ZeroPoint(kFormat) * result.sum};
    std::memcpy(to + kEndsAt, &ends, sizeof(ends));
  }

  static Ends EndsOf(const std::byte* row) {
    Ends ends;
    std::memcpy(&ends, row + kEndsAt, sizeof(ends));
    return ends;
  }

  // out <- fma(float(d) * x's scale, w's scale, out) of one group.
  template <int kRows, int kTiles>
  static void DotGroup(const std::byte* panel, const std::byte* tile,
                       int64_t tile_bytes, int64_t units, Ahead ahead,
                       float* out) {
    constexpr int kVectors = kTiles * kTileVectors;
    Sums sums[kRows][kVectors];
    Unrolled<kRows>([&](auto r) __attribute__((always_inline)) {
      const Sums begin = Lanes::All(EndsOf(panel + r * kStride).begin);
      Unrolled<kVectors>([&](auto v) __attribute__((always_inline)) {
        sums[r][v] = begin;
      });
    });
    const std::byte* at = tile + kTileScaleBytes;
    const std::byte* x = panel;
    for (int64_t unit = 0; unit < units; ++unit) {
      if constexpr (kRows > kStreamRows) {
        if (ahead.soon) {
          Lanes::PrefetchNear(at + ahead.one);
          Lanes::PrefetchNear(at + ahead.other);
        } else {
          Lanes::Prefetch(at + ahead.one);
          Lanes::Prefetch(at + ahead.other);
        }
      }
      Codes codes[kUnitQuads][kVectors];
      Unrolled<kVectors>([&](auto v) __attribute__((always_inline)) {
        const std::byte* from = at + v / kTileVectors * tile_bytes +
                                v % kTileVectors * Lanes::kBytes;
        if constexpr (kFormat == WeightFormat::kInt8) {
          codes[0][v] = Lanes::Load(from);
        } else {
          Lanes::LoadHalves(from, codes[0][v], codes[1][v]);
        }
      });
      Unrolled<kUnitQuads>([&](auto q) __attribute__((always_inline)) {
        Unrolled<kRows>([&](auto r) __attribute__((always_inline)) {
          const Quad quad(x + r * kStride + q * Lanes::kQuadBytes);
          Unrolled<kVectors>([&](auto v) __attribute__((always_inline)) {
            sums[r][v] = Lanes::Add(sums[r][v], codes[q][v], quad);
          });
        });
      });
      at += kUnitBytes;
      x += kUnitQuads * Lanes::kQuadBytes;
    }
    Unrolled<kVectors>([&](auto v) __attribute__((always_inline)) {
      const auto scale =
          Lanes::Scales(tile + v / kTileVectors * tile_bytes +
                        v % kTileVectors * Lanes::kOutputs * sizeof(uint16_t));
      Unrolled<kRows>([&](auto r) __attribute__((always_inline)) {
        Lanes::AddScaled(sums[r][v], EndsOf(panel + r * kStride).scale, scale,
                         out + (r * kVectors + v) * Lanes::kOutputs);
      });
    });
  }
};

}  // namespace phalanx::PHALANX_ISA

#endif  // PHALANX_KERNELS_CPU_QUANT_TILE_H_
