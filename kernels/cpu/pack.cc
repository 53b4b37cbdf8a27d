#include <cstring>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/matmul_product.h"
#include "kernels/cpu/tile_rows.h"

namespace phalanx::PHALANX_ISA {

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
