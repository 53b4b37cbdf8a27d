#ifndef PHALANX_KERNELS_CPU_TILE_ROWS_H_
#define PHALANX_KERNELS_CPU_TILE_ROWS_H_

#include <cstdint>

#include "kernels/cpu/packed_layout.h"
#include "kernels/packed_weight.h"

namespace phalanx {

// The row of the checkpoint behind an output of a tile; -1 is padding.
inline int64_t SourceRow(const PackedWeight& w, int64_t tile, int64_t output) {
  if (w.layout == WeightLayout::kPlain) {
    const int64_t row = tile * kTileOutputs + output;
    return row < w.rows ? row : -1;
  }
  const int64_t half = w.rows / 2;
  const int64_t row = tile * kTileGates + output % kTileGates;
  if (row >= half) return -1;
  return output < kTileGates ? row : half + row;
}

}  // namespace phalanx

#endif  // PHALANX_KERNELS_CPU_TILE_ROWS_H_
