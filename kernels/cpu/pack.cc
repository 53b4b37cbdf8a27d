#include "kernels/bf16.h"
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

void PackWeight(const uint16_t* host, int64_t index, PackedWeight& w) {
  uint16_t* matrix = const_cast<uint16_t*>(Matrix(w, index));
  for (int64_t tile = 0; tile < Tiles(w); ++tile) {
    uint16_t* packed = matrix + tile * TileElements(w.cols);
    const uint16_t* rows[kTileOutputs];
    for (int64_t n = 0; n < kTileOutputs; ++n) {
      const int64_t row = SourceRow(w, tile, n);
      rows[n] = row < 0 ? nullptr : host + row * w.cols;
    }
    for (int64_t k = 0; k < w.cols; k += 2) {
      for (int64_t n = 0; n < kTileOutputs; ++n, packed += 2) {
        packed[0] = rows[n] == nullptr ? 0 : rows[n][k];
        packed[1] = rows[n] == nullptr ? 0 : rows[n][k + 1];
      }
    }
  }
}

}  // namespace phalanx::PHALANX_ISA
