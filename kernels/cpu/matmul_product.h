#ifndef PHALANX_KERNELS_CPU_MATMUL_PRODUCT_H_
#define PHALANX_KERNELS_CPU_MATMUL_PRODUCT_H_

// Products of many rows by a packed weight, on top of matmul_tile.h: what is
// shared by MatMul, MatMulSliced, GateUp and the experts. D is a kernel family
// (FmaDot, Bf16Dot, IntDot).

#include <cstdint>

#include "common/check.h"
#include "kernels/cpu/matmul_tile.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/packed_weight.h"
#include "kernels/sequences.h"
#include "kernels/tensor.h"

namespace phalanx::PHALANX_ISA {

// Scratch lives on the stack of the thread that computes: a panel of rows, and
// for the down products the planes. Half a MiB each, so that both stay in a
// second-level cache.
inline constexpr int64_t kPanelBytes = int64_t{512} * 1024;

// Below this many multiply-adds a task is not worth handing to a thread.
inline constexpr int64_t kMinTaskWork = 32 * 1024;

// Tasks a thread, so that a late thread holds up the others only a little.
inline constexpr int64_t kTasksPerThread = 4;

constexpr int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t Min(int64_t a, int64_t b) { return a < b ? a : b; }
constexpr int64_t Max(int64_t a, int64_t b) { return a > b ? a : b; }

// Where part `index` of `parts` begins, of `total` cut as evenly as possible.
constexpr int64_t PartBegin(int64_t total, int64_t parts, int64_t index) {
  return total * index / parts;
}

inline int64_t Tiles(const PackedWeight& w) {
  return TileCount(w.layout, w.rows);
}

inline WeightView ViewOf(const PackedWeight& w, int64_t index, int slices) {
  return {.data = static_cast<const std::byte*>(w.storage.data()) +
                  index * w.matrix_bytes,
          .tile_bytes = w.matrix_bytes / Tiles(w),
          .cols = w.cols,
          .slices = slices,
          .groups = GroupsOf(w.cols, slices)};
}

// Rows that fit into one panel.
template <typename D>
int64_t PanelRows(const WeightView& w) {
  const int64_t rows = kPanelBytes / D::PanelRowBytes(w);
  CHECK(rows >= 1);
  return rows;
}

// Fills one block of a panel: rows row_at(first) .. row_at(first + rows - 1),
// at most kMaxBlockRows.
template <typename D, typename RowAt>
void LoadBlock(const RowAt& row_at, int64_t first, int64_t rows,
               const WeightView& w, std::byte* panel) {
  const uint16_t* x[kMaxBlockRows];
  for (int64_t r = 0; r < rows; ++r) x[r] = row_at(first + r);
  D::LoadBlock(x, rows, w, panel);
}

// Adds `slices` planes of `floats` each by the tree of neighbours, into the
// first: (0+1)+(2+3) ...
inline void AddSlices(float* planes, int slices, int64_t floats,
                      int64_t plane_stride) {
  for (int step = 1; step < slices; step *= 2) {
    for (int s = 0; s < slices; s += 2 * step) {
      float* a = planes + s * plane_stride;
      const float* b = planes + (s + step) * plane_stride;
      for (int64_t i = 0; i < floats; ++i) a[i] += b[i];
    }
  }
}

// One block of rows times tiles [first, last) of a matrix, its slices added by
// the tree. emit(row in the block, tile, 32 floats).
template <typename D, typename Emit>
void BlockTimesTiles(const std::byte* panel, int64_t rows, const WeightView& w,
                     int64_t first, int64_t last, const Emit& emit) {
  const DotKernels& kernels = kDotKernels<D>[rows];
  alignas(64) float planes[kContractionSlices * kMaxDotFloats];

  for (int64_t tile = first; tile < last;) {
    const bool wide = last - tile >= kernels.wide_tiles;
    const int64_t tiles = wide ? kernels.wide_tiles : 1;
    const int64_t row_floats = tiles * kTileOutputs;
    for (int s = 0; s < w.slices; ++s) {
      (wide ? kernels.wide : kernels.one)(panel, w.tile(tile), w, s,
                                          planes + s * kMaxDotFloats);
    }
    AddSlices(planes, w.slices, rows * row_floats, kMaxDotFloats);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t t = 0; t < tiles; ++t)
        emit(r, tile + t, planes + r * row_floats + t * kTileOutputs);
    tile += tiles;
  }
}

// Rows row_at(0 .. rows - 1), which fit into a panel, times tiles [first, last)
// of a matrix. emit(row, tile, 32 floats).
template <typename D, typename RowAt, typename Emit>
void RowsTimesTiles(const RowAt& row_at, int64_t rows, const WeightView& w,
                    int64_t first, int64_t last, const Emit& emit) {
  alignas(64) std::byte panel[kPanelBytes];
  const int64_t blocks = CeilDiv(rows, D::kMaxRows);
  const int64_t row_bytes = D::PanelRowBytes(w);
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t begin = PartBegin(rows, blocks, b);
    LoadBlock<D>(row_at, begin, PartBegin(rows, blocks, b + 1) - begin, w,
                 panel + begin * row_bytes);
  }
  // Several blocks share a tile while it is in the nearest cache.
  const int64_t stride = blocks == 1 ? last - first : 1;
  for (int64_t tile = first; tile < last; tile += stride) {
    for (int64_t b = 0; b < blocks; ++b) {
      const int64_t begin = PartBegin(rows, blocks, b);
      BlockTimesTiles<D>(
          panel + begin * row_bytes, PartBegin(rows, blocks, b + 1) - begin, w,
          tile, tile + stride, [&](int64_t r, int64_t t, const float* out) {
            emit(begin + r, t, out);
          });
    }
  }
}

// Into how many parts to cut the outputs, for each of `groups` groups of rows,
// so that all threads have enough to do but no task is tiny.
inline int64_t PartsForThreads(const ThreadPool& pool, int64_t work,
                               int64_t groups) {
  if (pool.threads() == 1) return 1;
  return CeilDiv(Min(work / kMinTaskWork, kTasksPerThread * pool.threads()),
                 groups);
}

// The same, so that weights which several groups of rows read stay in the cache
// between them.
inline int64_t PartsForCache(const WeightView& w, int64_t tiles,
                             int64_t groups) {
  constexpr int64_t kPartBytes = int64_t{1} << 20;
  return groups == 1 ? 1 : CeilDiv(tiles * w.tile_bytes, kPartBytes);
}

// All rows of x times one matrix, shared over the pool by rows and tiles.
// emit(row, tile, 32 floats).
template <typename D, typename Emit>
void Product(ThreadPool& pool, Tensor x, const PackedWeight& w, int slices,
             const Emit& emit) {
  const int64_t rows = x.dims[0];
  if (rows == 0) return;
  const int64_t tiles = Tiles(w);
  const WeightView view = ViewOf(w, 0, slices);
  const int64_t groups = CeilDiv(rows, PanelRows<D>(view));
  const int64_t work = rows * tiles * TileElements(w.cols);
  const int64_t parts =
      Max(1, Min(tiles, Max(PartsForThreads(pool, work, groups),
                            PartsForCache(view, tiles, groups))));

  // Groups of rows innermost: they follow each other through the same weights.
  pool.ParallelFor(parts * groups, [&](int64_t task) {
    const int64_t part = task / groups;
    const int64_t begin = PartBegin(rows, groups, task % groups);
    const int64_t end = PartBegin(rows, groups, task % groups + 1);
    RowsTimesTiles<D>([&](int64_t r) { return x.row<uint16_t>(begin + r); },
                      end - begin, view, PartBegin(tiles, parts, part),
                      PartBegin(tiles, parts, part + 1),
                      [&](int64_t r, int64_t tile, const float* out) {
                        emit(begin + r, tile, out);
                      });
  });
}

}  // namespace phalanx::PHALANX_ISA

#endif  // PHALANX_KERNELS_CPU_MATMUL_PRODUCT_H_
