#ifndef PHALANX_KERNELS_CPU_PACKED_LAYOUT_H_
#define PHALANX_KERNELS_CPU_PACKED_LAYOUT_H_

// How a weight [N, K] lies in memory on CPU: tiles of 32 outputs,
// [N/32][K/2][32][2] bf16. For each pair of neighbouring columns, 32 outputs
// side by side; missing outputs of the last tile are zeros. A tile of a kGateUp
// weight is 16 gates and the 16 ups that belong to them.
//
// So K runs in order and outputs sit in the lanes of a vector: a product of one
// row and one of many perform the same chain of operations for each output, and
// both read memory in order.

#include <cstdint>

#include "kernels/packed_weight.h"

namespace phalanx {

inline constexpr int kTileOutputs = 32;
inline constexpr int kTileGates = kTileOutputs / 2;

// Elements and bytes of one bf16 tile.
constexpr int64_t TileElements(int64_t cols) { return cols * kTileOutputs; }
constexpr int64_t TileBytes(int64_t cols) { return TileElements(cols) * 2; }

// Tiles of one matrix.
constexpr int64_t TileCount(WeightLayout layout, int64_t rows) {
  const int64_t outputs = layout == WeightLayout::kGateUp ? rows / 2 : rows;
  const int64_t per_tile =
      layout == WeightLayout::kGateUp ? kTileGates : kTileOutputs;
  return (outputs + per_tile - 1) / per_tile;
}

}  // namespace phalanx

#endif  // PHALANX_KERNELS_CPU_PACKED_LAYOUT_H_
