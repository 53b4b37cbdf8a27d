// Checkpoint rows into tiles.

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/packed_tile.h"

namespace phalanx::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarpLanes = 32;

// One thread fills what one lane will load of one tile.
__global__ void __launch_bounds__(kThreads) PackKernel(const PackArgs p) {
  const int64_t column_tiles = ColumnTiles(p.cols);
  const int64_t index = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int64_t tile = index / kWarpLanes / column_tiles;
  if (tile >= p.tiles) return;
  const int64_t column_tile = index / kWarpLanes % column_tiles;
  const int lane = static_cast<int>(index % kWarpLanes);
  const int64_t row = tile * p.step + lane / 4;
  for (int slot = 0; slot < kLaneElements; ++slot) {
    // The inverse of PlaceInTile.
    const bool is_high = slot / 2 % 2 != 0;
    const int64_t column =
        column_tile * kTileCols + slot / 4 * 8 + lane % 4 * 2 + slot % 2;
    const bool exists =
        row < (is_high ? p.high_rows : p.low_rows) && column < p.cols;
    const uint16_t* rows = is_high ? p.high : p.low;
    p.packed[index * kLaneElements + slot] =
        exists ? rows[row * p.cols + column] : uint16_t{0};
  }
}

}  // namespace

cudaError_t PackTiles(const PackArgs& args, cudaStream_t stream) {
  const int64_t threads = args.tiles * ColumnTiles(args.cols) * kWarpLanes;
  cudaLaunchConfig_t config = {};
  config.gridDim =
      dim3(static_cast<unsigned>((threads + kThreads - 1) / kThreads));
  config.blockDim = dim3(kThreads);
  config.stream = stream;
  return cudaLaunchKernelEx(&config, PackKernel, args);
}

}  // namespace phalanx::cuda
