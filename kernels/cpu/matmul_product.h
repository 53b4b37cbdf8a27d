#ifndef PHALANX_KERNELS_CPU_MATMUL_PRODUCT_H_
#define PHALANX_KERNELS_CPU_MATMUL_PRODUCT_H_

// Products of many rows by a packed weight, on top of matmul_tile.h: what is
// shared by MatMul, MatMulSliced, GateUp and the experts. D is a kernel family
// (FmaDot, Bf16Dot, IntDot).

#include <cstdint>
#include <type_traits>

#include "common/check.h"
#include "kernels/cpu/matmul_tile.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/cpu/vec.h"
#include "kernels/packed_weight.h"
#include "kernels/sequences.h"
#include "kernels/tensor.h"

namespace phalanx::PHALANX_ISA {

// Rows whose panel stays in a second-level cache, half of which may belong to
// another thread of the core.
inline constexpr int64_t kPanelBytes = int64_t{256} * 1024;

// The panel of a whole product, made before its tasks run. More rows than it
// holds are a second product.
inline constexpr int64_t kMaxPanelBytes = int64_t{8} << 20;

// A task is as long as reading so many bytes of weights, or as so many
// multiply-adds: some 10 us.
inline constexpr int64_t kTaskBytes = 128 * 1024;
inline constexpr int64_t kTaskWork = 1024 * 1024;

// Tasks a thread at most, so that a late thread holds up the others only a
// little.
inline constexpr int64_t kTasksPerThread = 32;

// Panels up to this size are filled by the caller alone.
inline constexpr int64_t kSmallPanelBytes = 64 * 1024;

constexpr int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t Min(int64_t a, int64_t b) { return a < b ? a : b; }
constexpr int64_t Max(int64_t a, int64_t b) { return a > b ? a : b; }

// Where part `index` of `parts` begins, of `total` cut as evenly as possible.
constexpr int64_t PartBegin(int64_t total, int64_t parts, int64_t index) {
  return total * index / parts;
}

// Weights from this size on, all their matrices together, are hardly found in a
// cache when a step comes back to them.
inline constexpr int64_t kStreamedBytes = int64_t{8} << 20;

inline int64_t Tiles(const PackedWeight& w) {
  return TileCount(w.layout, w.rows);
}

inline WeightView ViewOf(const PackedWeight& w, int64_t index, int slices) {
  return {.data = static_cast<const std::byte*>(w.storage.data()) +
                  index * w.matrix_bytes,
          .tile_bytes = w.matrix_bytes / Tiles(w),
          .cols = w.cols,
          .slices = slices,
          .groups = GroupsOf(w.cols, slices),
          .streamed = w.storage.bytes() >= kStreamedBytes};
}

// How many tiles the kernels of a row count take at a time.
inline int64_t TilesAtATime(const DotKernels& kernels, const WeightView& w) {
  return w.streamed ? 1 : kernels.wide_tiles;
}

// Memory of the calling thread for the panel of an op, made before its tasks
// run, and for that of one task. Valid until the next call of the same.
inline std::byte* OpPanel(int64_t bytes) {
  static thread_local Scratch scratch;
  return scratch.Bytes(bytes);
}
inline std::byte* TaskPanel(int64_t bytes) {
  static thread_local Scratch scratch;
  return scratch.Bytes(bytes);
}

// Rows that fit into a panel of `bytes`.
template <typename D>
int64_t PanelRows(const WeightView& w, int64_t bytes) {
  return Max(1, bytes / D::PanelRowBytes(w));
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

// kSlices vectors, `stride` floats apart, by the tree of neighbours:
// (0+1)+(2+3) ...
template <int kSlices>
inline __attribute__((always_inline)) F32x16 TreeSum(const float* first,
                                                     int64_t stride) {
  if constexpr (kSlices == 1) {
    return Load(first);
  } else {
    constexpr int kHalf = kSlices / 2;
    return TreeSum<kHalf>(first, stride) +
           TreeSum<kHalf>(first + kHalf * stride, stride);
  }
}

// Adds `slices` planes, a power of two of them, by that tree into the first,
// in one pass. Planes are `floats` each, a multiple of kLanes.
inline void AddSlices(float* planes, int slices, int64_t floats,
                      int64_t plane_stride) {
  const auto add = [&](auto count) {
    for (float* at = planes; at < planes + floats; at += kLanes)
      Store(at, TreeSum<count()>(at, plane_stride));
  };
  switch (slices) {
    case 1:
      return;
    case 2:
      return add(std::integral_constant<int, 2>());
    case 4:
      return add(std::integral_constant<int, 4>());
    case 8:
      return add(std::integral_constant<int, 8>());
    default:
      CHECK(false);
  }
}

// One block of rows times tiles [first, last) of a matrix, its slices added by
// the tree. emit(row in the block, tile, 32 floats).
template <typename D, typename Emit>
void BlockTimesTiles(const std::byte* panel, int64_t rows, const WeightView& w,
                     int64_t first, int64_t last, Ahead ahead,
                     const Emit& emit) {
  const DotKernels& kernels = kDotKernels<D>[rows];
  const int64_t wide_tiles = TilesAtATime(kernels, w);
  alignas(64) float planes[kContractionSlices * kMaxDotFloats];

  for (int64_t tile = first; tile < last;) {
    const bool wide = wide_tiles > 1 && last - tile >= wide_tiles;
    const int64_t tiles = wide ? wide_tiles : 1;
    const int64_t row_floats = tiles * kTileOutputs;
    for (int s = 0; s < w.slices; ++s) {
      (wide ? kernels.wide : kernels.one)(panel, w.tile(tile), w, s, ahead,
                                          planes + s * kMaxDotFloats);
    }
    AddSlices(planes, w.slices, rows * row_floats, kMaxDotFloats);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t t = 0; t < tiles; ++t)
        emit(r, tile + t, planes + r * row_floats + t * kTileOutputs);
    tile += tiles;
  }
}

// The rows of a panel, cut into blocks as even as possible.
struct PanelBlocks {
  int64_t rows = 0;
  int64_t count = 0;
  int64_t row_bytes = 0;

  template <typename D>
  static PanelBlocks Of(int64_t rows, const WeightView& w) {
    return {rows, CeilDiv(rows, D::kMaxRows), D::PanelRowBytes(w)};
  }
  int64_t begin(int64_t block) const { return PartBegin(rows, count, block); }
  int64_t size(int64_t block) const { return begin(block + 1) - begin(block); }
  int64_t offset(int64_t block) const { return begin(block) * row_bytes; }
  int64_t bytes() const { return rows * row_bytes; }
};

// Blocks [first_block, last_block) of a panel times tiles [first, last) of a
// matrix. emit(row of the panel, tile, 32 floats).
template <typename D, typename Emit>
void BlocksTimesTiles(const std::byte* panel, const PanelBlocks& blocks,
                      int64_t first_block, int64_t last_block,
                      const WeightView& w, int64_t first, int64_t last,
                      const Emit& emit) {
  // Several blocks share a tile while it is in the nearest cache, and ask for
  // the next one meanwhile.
  const bool alone = last_block - first_block == 1;
  const int64_t stride = alone ? last - first : 1;
  const bool unaided = blocks.size(first_block) <= D::kUnaidedRows;
  const int64_t distance = !alone    ? w.tile_bytes
                           : unaided ? 0
                                     : D::kStreamAhead;
  for (int64_t tile = first; tile < last; tile += stride) {
    for (int64_t b = first_block; b < last_block; ++b) {
      const int64_t begin = blocks.begin(b);
      BlockTimesTiles<D>(panel + blocks.offset(b), blocks.size(b), w, tile,
                         tile + stride,
                         alone ? Ahead::Soon(distance)
                               : Ahead::InTurns(distance, b - first_block),
                         [&](int64_t r, int64_t t, const float* out) {
                           emit(begin + r, t, out);
                         });
    }
  }
}

// Fills blocks [first, last) of a panel with rows row_at(0 .. rows - 1).
template <typename D, typename RowAt>
void LoadBlocks(const RowAt& row_at, const PanelBlocks& blocks, int64_t first,
                int64_t last, const WeightView& w, std::byte* panel) {
  for (int64_t b = first; b < last; ++b)
    LoadBlock<D>(row_at, blocks.begin(b), blocks.size(b), w,
                 panel + blocks.offset(b));
}

// Rows row_at(0 .. rows - 1) times tiles [first, last) of a matrix, by one
// thread, as many at a time as stay in its cache. emit(row, tile, 32 floats).
template <typename D, typename RowAt, typename Emit>
void RowsTimesTiles(const RowAt& row_at, int64_t rows, const WeightView& w,
                    int64_t first, int64_t last, const Emit& emit) {
  const int64_t groups = CeilDiv(rows, PanelRows<D>(w, kPanelBytes));
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t begin = PartBegin(rows, groups, g);
    const PanelBlocks blocks =
        PanelBlocks::Of<D>(PartBegin(rows, groups, g + 1) - begin, w);
    std::byte* panel = TaskPanel(blocks.bytes());
    LoadBlocks<D>([&](int64_t r) { return row_at(begin + r); }, blocks, 0,
                  blocks.count, w, panel);
    BlocksTimesTiles<D>(panel, blocks, 0, blocks.count, w, first, last,
                        [&](int64_t r, int64_t tile, const float* out) {
                          emit(begin + r, tile, out);
                        });
  }
}

// Into how many parts to cut the outputs, for each of `groups` groups of rows,
// so that all threads have enough to do but no task is tiny. What all of them
// read, in bytes of weights, and multiply.
inline int64_t PartsForThreads(const ThreadPool& pool, int64_t bytes,
                               int64_t work, int64_t groups) {
  if (pool.threads() == 1) return 1;
  return CeilDiv(Min(Max(bytes / kTaskBytes, work / kTaskWork),
                     kTasksPerThread * pool.threads()),
                 groups);
}

// The same, so that weights which several groups of rows read stay in the cache
// between them.
inline int64_t PartsForCache(const WeightView& w, int64_t tiles,
                             int64_t groups) {
  constexpr int64_t kPartBytes = int64_t{1} << 20;
  return groups == 1 ? 1 : CeilDiv(tiles * w.tile_bytes, kPartBytes);
}

// Rows of x whose panel is `blocks` times one matrix, shared over the pool by
// rows and tiles. emit(row, tile, 32 floats).
template <typename D, typename RowAt, typename Emit>
void PanelProduct(ThreadPool& pool, const RowAt& row_at,
                  const PanelBlocks& blocks, const WeightView& w, int64_t tiles,
                  const Emit& emit) {
  std::byte* const panel = OpPanel(blocks.bytes());
  const int64_t fills =
      blocks.bytes() <= kSmallPanelBytes ? 1 : Min(blocks.count, 16);
  pool.ParallelFor(fills, [&](int64_t i) {
    LoadBlocks<D>(row_at, blocks, PartBegin(blocks.count, fills, i),
                  PartBegin(blocks.count, fills, i + 1), w, panel);
  });

  const int64_t groups = CeilDiv(blocks.rows, PanelRows<D>(w, kPanelBytes));
  const int64_t bytes = tiles * w.tile_bytes;
  const int64_t parts = Max(
      1,
      Min(tiles, Max(PartsForThreads(
                         pool, bytes,
                         blocks.rows * tiles * w.cols * kTileOutputs, groups),
                     PartsForCache(w, tiles, groups))));
  // Groups of rows innermost: they follow each other through the same weights.
  pool.ParallelFor(parts * groups, [&](int64_t task) {
    const int64_t part = task / groups;
    const int64_t group = task % groups;
    BlocksTimesTiles<D>(panel, blocks, PartBegin(blocks.count, groups, group),
                        PartBegin(blocks.count, groups, group + 1), w,
                        PartBegin(tiles, parts, part),
                        PartBegin(tiles, parts, part + 1), emit);
  });
}

// All rows of x times one matrix. emit(row, tile, 32 floats).
template <typename D, typename Emit>
void Product(ThreadPool& pool, Tensor x, const PackedWeight& w, int slices,
             const Emit& emit) {
  const WeightView view = ViewOf(w, 0, slices);
  const int64_t rows = x.dims[0];
  const int64_t waves = CeilDiv(rows, PanelRows<D>(view, kMaxPanelBytes));
  for (int64_t wave = 0; wave < waves; ++wave) {
    const int64_t begin = PartBegin(rows, waves, wave);
    PanelProduct<D>(
        pool, [&](int64_t r) { return x.row<uint16_t>(begin + r); },
        PanelBlocks::Of<D>(PartBegin(rows, waves, wave + 1) - begin, view),
        view, Tiles(w),
        [&](int64_t r, int64_t tile, const float* out) {
          emit(begin + r, tile, out);
        });
  }
}

}  // namespace phalanx::PHALANX_ISA

#endif  // PHALANX_KERNELS_CPU_MATMUL_PRODUCT_H_
