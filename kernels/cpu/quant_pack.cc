// Weights of int8 and int4: rows into codes, codes into tiles
// (packed_layout.h).

#include <cstring>
#include <vector>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/matmul_product.h"
#include "kernels/cpu/tile_rows.h"
#include "kernels/quantise_group.h"

namespace phalanx::PHALANX_ISA {
namespace {

// The rows of one tile, [32][cols] codes and [32][groups] scales; those that
// the matrix lacks are zeros: scale 0, codes of the zero point.
struct TileCodes {
  std::vector<uint8_t> codes;
  std::vector<uint16_t> scales;

  TileCodes(WeightFormat format, int64_t cols, int64_t groups)
      : codes(kTileOutputs * cols, static_cast<uint8_t>(ZeroPoint(format))),
        scales(kTileOutputs * groups) {}
};

// Bytes of one output's codes in one unit: `count` of its columns.
uint32_t UnitCodes(WeightFormat format, const uint8_t* codes, int64_t count) {
  uint8_t all[8];
  std::memset(all, ZeroPoint(format), sizeof(all));
  std::memcpy(all, codes, static_cast<size_t>(count));
  uint32_t low, high;
  std::memcpy(&low, all, sizeof(low));
  std::memcpy(&high, all + 4, sizeof(high));
  return format == WeightFormat::kInt8 ? low : low | high << 4;
}

void PackTile(WeightFormat format, const WeightGroups& groups, int64_t cols,
              const TileCodes& rows, std::byte* tile) {
  const int64_t unit_cols = UnitCols(format);
  int64_t at = 0;
  for (int64_t g = 0; g < groups.count; ++g) {
    auto* scales = reinterpret_cast<uint16_t*>(tile);
    for (int64_t n = 0; n < kTileOutputs; ++n)
      scales[n] = rows.scales[n * groups.count + g];
    tile += kTileScaleBytes;
    const int64_t left = groups.slice_cols - at % groups.slice_cols;
    const int64_t end = at + Min(groups.cols, left);
    for (; at < end; at += unit_cols, tile += kUnitBytes) {
      const int64_t count = Min(unit_cols, end - at);
      for (int64_t n = 0; n < kTileOutputs; ++n) {
        const uint32_t unit =
            UnitCodes(format, rows.codes.data() + n * cols + at, count);
        std::memcpy(tile + 4 * n, &unit, sizeof(unit));
      }
    }
    at = end;
  }
}

// fill(row of the matrix, its codes, its scales) for each row there is.
template <typename Fill>
void PackTiles(int64_t index, PackedWeight& w, const Fill& fill) {
  const WeightGroups groups = GroupsOf(w.cols, w.slices);
  const int64_t tile_bytes = w.matrix_bytes / Tiles(w);
  auto* matrix =
      static_cast<std::byte*>(w.storage.data()) + index * w.matrix_bytes;
  for (int64_t tile = 0; tile < Tiles(w); ++tile) {
    TileCodes rows(w.format, w.cols, groups.count);
    for (int64_t n = 0; n < kTileOutputs; ++n) {
      const int64_t row = SourceRow(w, tile, n);
      if (row < 0) continue;
      fill(row, rows.codes.data() + n * w.cols,
           rows.scales.data() + n * groups.count);
    }
    PackTile(w.format, groups, w.cols, rows, matrix + tile * tile_bytes);
  }
}

}  // namespace

int64_t QuantMatrixBytes(const WeightShape& shape) {
  return TileCount(shape.layout, shape.rows) * shape.slices *
         SliceBytes(shape.format, GroupsOf(shape.cols, shape.slices));
}

void QuantWeightRow(const uint16_t* row, int64_t cols, int slices,
                    WeightFormat format, uint8_t* codes, uint16_t* scales) {
  quantise::WeightRow(row, GroupsOf(cols, slices), format, codes, scales);
}

void QuantPackWeight(const uint16_t* host, int64_t index, PackedWeight& w) {
  const WeightGroups groups = GroupsOf(w.cols, w.slices);
  PackTiles(index, w, [&](int64_t row, uint8_t* codes, uint16_t* scales) {
    quantise::WeightRow(host + row * w.cols, groups, w.format, codes, scales);
  });
}

void QuantPackCodes(const uint8_t* codes, const uint16_t* scales, int64_t index,
                    PackedWeight& w) {
  const int64_t groups = GroupsOf(w.cols, w.slices).count;
  PackTiles(index, w, [&](int64_t row, uint8_t* to, uint16_t* scales_to) {
    std::memcpy(to, codes + row * w.cols, static_cast<size_t>(w.cols));
    std::memcpy(scales_to, scales + row * groups,
                static_cast<size_t>(groups) * sizeof(uint16_t));
  });
}

}  // namespace phalanx::PHALANX_ISA
