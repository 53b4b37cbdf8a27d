#include <cstring>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/matmul_product.h"

namespace phalanx::PHALANX_ISA {
namespace {

// The row of the checkpoint behind an output of a tile; -1 is padding.
int64_t SourceRow(const PackedWeight& w, int64_t tile, int64_t output) {
  if (w.layout == WeightLayout::kPlain) {
    const int64_t row = tile * kTileOutputs + output;
    return row < w.rows ? row : -1;
  }
  const int64_t half = w.rows / 2;
  const int64_t row = tile * kTileGates + output % kTileGates;
  if (row >= half) return -1;
  return output < kTileGates ? row : half + row;
}

}  // namespace

int64_t MatrixBytes(const WeightShape& shape) {
  return TileCount(shape.layout, shape.rows) * TileBytes(shape.cols);
}

void PackWeight(const uint16_t* host, int64_t index, PackedWeight& w) {
  // A cache line of one row goes to as many lines of the tile; 32 rows later
  // they are full.
  constexpr int64_t kBlockCols = 32;
  auto* matrix = reinterpret_cast<uint16_t*>(
      static_cast<std::byte*>(w.storage.data()) + index * w.matrix_bytes);
  for (int64_t tile = 0; tile < Tiles(w); ++tile) {
    uint16_t* packed = matrix + tile * TileElements(w.cols);
    for (int64_t first = 0; first < w.cols; first += kBlockCols) {
      const int64_t last = Min(first + kBlockCols, w.cols);
      for (int64_t n = 0; n < kTileOutputs; ++n) {
        const int64_t row = SourceRow(w, tile, n);
        for (int64_t k = first; k < last; k += 2) {
          uint32_t pair = 0;
          if (row >= 0) std::memcpy(&pair, host + row * w.cols + k, 4);
          std::memcpy(packed + k * kTileOutputs + 2 * n, &pair, 4);
        }
      }
    }
  }
}

}  // namespace phalanx::PHALANX_ISA
