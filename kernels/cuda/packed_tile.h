#ifndef PHALANX_KERNELS_CUDA_PACKED_TILE_H_
#define PHALANX_KERNELS_CUDA_PACKED_TILE_H_

// How a weight [N, K] lies in a card's memory: [N/16][K/16] tiles of 16 outputs
// by 16 columns, 512 bytes each, in the order in which the 32 lanes of a warp
// hold operand A of mma.m16n8k16: lane l has the 8 elements at 8 l, so a tile
// is one 16-byte load a lane. What is missing in the last tiles is zeros. A
// tile of a kGateUp weight is 8 gates and the 8 ups that belong to them, so the
// lane that has a gate has its up too.
//
// Plain C++: host and device read it.

#include <cstdint>

#include "kernels/packed_weight.h"

namespace phalanx::cuda {

inline constexpr int kTileOutputs = 16;
inline constexpr int kTileHalf = kTileOutputs / 2;
inline constexpr int kTileCols = 16;
inline constexpr int kTileElements = kTileOutputs * kTileCols;

// Elements of a tile that one lane holds.
inline constexpr int kLaneElements = kTileElements / 32;

// Where (output, column) of a tile lies; both below 16.
constexpr int PlaceInTile(int output, int column) {
  const int lane = output % 8 * 4 + column % 8 / 2;
  const int slot = column / 8 * 4 + output / 8 * 2 + column % 2;
  return lane * kLaneElements + slot;
}

// Rows of tiles of one matrix, and tiles in each.
constexpr int64_t OutputTiles(WeightLayout layout, int64_t rows) {
  const int64_t outputs = layout == WeightLayout::kGateUp ? rows / 2 : rows;
  const int64_t per_tile =
      layout == WeightLayout::kGateUp ? kTileHalf : kTileOutputs;
  return (outputs + per_tile - 1) / per_tile;
}
constexpr int64_t ColumnTiles(int64_t cols) {
  return (cols + kTileCols - 1) / kTileCols;
}

}  // namespace phalanx::cuda

#endif  // PHALANX_KERNELS_CUDA_PACKED_TILE_H_
