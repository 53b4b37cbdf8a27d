#ifndef PHALANX_KERNELS_CPU_PACKED_LAYOUT_H_
#define PHALANX_KERNELS_CPU_PACKED_LAYOUT_H_

// How a weight [N, K] lies in memory on CPU: tiles of 32 outputs,
// [N/32][K/2][32][2] bf16. For each pair of neighbouring columns, 32 outputs
// side by side; missing outputs of the last tile are zeros. A tile of a kGateUp
// weight is 16 gates and the 16 ups that belong to them.
//
// int8 and int4 have the same tiles. A tile is its groups in order (those of a
// slice, slice after slice), each
//   [32] bf16       scales, of outputs that are missing 0
//   [units][32][4]  bytes of codes, a unit being 4 columns in int8 and 8 in
//                   int4: byte j is column j of the unit; in int4 that is its
//                   low half, and its high half is column 4 + j
// and its last unit is filled up with codes of the zero point. So a vector of
// 64 bytes is 16 outputs times 4 columns, as vpdpbusd wants them, and the codes
// of int4 are unpacked by a mask and a shift. Memory is still read in order.
//
// So K runs in order and outputs sit in the lanes of a vector: a product of one
// row and one of many perform the same chain of operations for each output, and
// both read memory in order.

#include <cstddef>
#include <cstdint>

#include "kernels/packed_weight.h"

namespace phalanx {

inline constexpr int kTileOutputs = 32;
inline constexpr int kTileGates = kTileOutputs / 2;

// Elements and bytes of one bf16 tile.
constexpr int64_t TileElements(int64_t cols) { return cols * kTileOutputs; }
constexpr int64_t TileBytes(int64_t cols) { return TileElements(cols) * 2; }

inline constexpr int64_t kTileScaleBytes = 2 * kTileOutputs;
inline constexpr int64_t kUnitBytes = 4 * kTileOutputs;

// Columns of a unit of codes.
constexpr int64_t UnitCols(WeightFormat format) {
  return format == WeightFormat::kInt8 ? 4 : 8;
}
constexpr int64_t GroupUnits(WeightFormat format, int64_t group_cols) {
  return (group_cols + UnitCols(format) - 1) / UnitCols(format);
}
constexpr int64_t GroupBytes(WeightFormat format, int64_t group_cols) {
  return kTileScaleBytes + GroupUnits(format, group_cols) * kUnitBytes;
}
// Of one slice of a tile of int8 or int4.
constexpr int64_t SliceBytes(WeightFormat format, const WeightGroups& groups) {
  const int64_t whole = groups.per_slice - 1;
  return whole * GroupBytes(format, groups.cols) +
         GroupBytes(format, groups.slice_cols - whole * groups.cols);
}

// Tiles of one matrix.
constexpr int64_t TileCount(WeightLayout layout, int64_t rows) {
  const int64_t outputs = layout == WeightLayout::kGateUp ? rows / 2 : rows;
  const int64_t per_tile =
      layout == WeightLayout::kGateUp ? kTileGates : kTileOutputs;
  return (outputs + per_tile - 1) / per_tile;
}

}  // namespace phalanx

#endif  // PHALANX_KERNELS_CPU_PACKED_LAYOUT_H_
