#ifndef PHALANX_KERNELS_CUDA_PRODUCT_CUH_
#define PHALANX_KERNELS_CUDA_PRODUCT_CUH_

// The matrix product, for any way of multiplying a tile. A block of four warps
// takes 4 x 16 outputs of 8 or 32 tokens; the rows of x go through shared
// memory, 64 columns at a time, the weights straight into registers, since
// every tile of them is read once. Nobody splits K over blocks, and a token's
// neighbours only share its block: each output is one order of summation that
// depends on K and the slices alone.
//
// A Tile has
//   // Adds columns [from, to) of one tile of weights to the sums, for
//   // kTokenTiles x 8 tokens; panel is the tile's first column of the first.
//   template <int kTokenTiles>
//   static __device__ void Multiply(const uint16_t* weights,
//                                   const uint16_t* panel, int lane, int from,
//                                   int to, Sums<kTokenTiles>& sums);
// and holds what the accumulators of mma.m16n8k16 hold: in lane 4 g + t, of
// each 8 tokens, outputs g and g + 8 of tokens 2 t and 2 t + 1.

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/lane.cuh"
#include "kernels/cuda/packed_tile.h"

namespace phalanx::cuda {

inline constexpr int kWarpLanes = 32;
inline constexpr int kProductWarps = 4;
inline constexpr int kProductThreads = kProductWarps * kWarpLanes;
inline constexpr int kTileTokens = 8;
inline constexpr int kPanelCols = 64;
// Rows of the panel begin 4 banks apart, so the lanes of a warp, 8 tokens by 4
// pairs of columns, never meet in a bank.
inline constexpr int kPanelStride = kPanelCols + 8;
// Levels of the tree below its root: at most 8 slices.
inline constexpr int kTreeLevels = 3;

// sums[n][0..3]: of token tile n, (g, 2t), (g, 2t+1), (g+8, 2t), (g+8, 2t+1).
template <int kTokenTiles>
using Sums = float[kTokenTiles][4];

// Columns [base, base + kPanelCols) of the block's rows of x; zeros outside
// [first, last) and past the last token.
template <int kTokenTiles>
__device__ void FillPanel(const ProductArgs& p, int64_t first_token,
                          int64_t base, int64_t first, int64_t last,
                          uint16_t* panel) {
  constexpr int kElements = kTokenTiles * kTileTokens * kPanelCols;
  for (int i = threadIdx.x; i < kElements; i += kProductThreads) {
    const int row = i / kPanelCols;
    const int column = i % kPanelCols;
    const int64_t token = first_token + row;
    const int64_t k = base + column;
    const bool inside = token < p.tokens && k >= first && k < last;
    panel[row * kPanelStride + column] =
        inside ? p.x[token * p.x_stride + k] : uint16_t{0};
  }
}

// sums = the chain over columns [first, last), from 0. Every thread of the
// block calls it; those without a tile only help to fill the panel.
template <typename Tile, int kTokenTiles>
__device__ void SumSlice(const ProductArgs& p, const uint16_t* tile_row,
                         int64_t first_token, int64_t first, int64_t last,
                         uint16_t* panel, Sums<kTokenTiles>& sums) {
  const int lane = threadIdx.x % kWarpLanes;
  for (auto& token_tile : sums)
    for (float& sum : token_tile) sum = 0;
  for (int64_t base = first / kTileCols * kTileCols; base < last;
       base += kPanelCols) {
    __syncthreads();  // The columns before these have been used.
    FillPanel<kTokenTiles>(p, first_token, base, first, last, panel);
    __syncthreads();
    if (tile_row == nullptr) continue;
    const int64_t end = base + kPanelCols < last ? base + kPanelCols : last;
    for (int64_t k = base; k < end; k += kTileCols) {
      const int from = k < first ? static_cast<int>(first - k) : 0;
      const int to = last - k < kTileCols ? static_cast<int>(last - k)
                                          : static_cast<int>(kTileCols);
      Tile::template Multiply<kTokenTiles>(
          tile_row + k / kTileCols * kTileElements, panel + (k - base), lane,
          from, to, sums);
    }
  }
}

// Takes slice number `slice` into the balanced tree, as a binary counter
// carries: partial[l] waits for its right neighbour of 2^l slices. After the
// last slice, sums is the root.
template <int kTokenTiles>
__device__ void AddSlice(int slice, Sums<kTokenTiles> (&partial)[kTreeLevels],
                         Sums<kTokenTiles>& sums) {
  bool carries = true;
#pragma unroll
  for (int level = 0; level < kTreeLevels; ++level) {
    const bool has_left = (slice >> level & 1) != 0;
#pragma unroll
    for (int n = 0; n < kTokenTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float& left = partial[level][n][i];
        if (carries && has_left) sums[n][i] = __fadd_rn(left, sums[n][i]);
        if (carries && !has_left) left = sums[n][i];
      }
    }
    carries = carries && has_left;
  }
}

// The four sums of one lane and eight tokens at their places in y.
struct StoreF32 {
  static constexpr int kTileRows = kTileOutputs;
  __device__ static void Store(const ProductArgs& p, int64_t token,
                               int64_t output, const float (&sum)[4], int i) {
    float* row = static_cast<float*>(p.y) + token * p.y_stride;
    if (output < p.outputs) row[output] = sum[i];
    if (output + kTileHalf < p.outputs) row[output + kTileHalf] = sum[i + 2];
  }
};

struct StoreBf16 {
  static constexpr int kTileRows = kTileOutputs;
  __device__ static void Store(const ProductArgs& p, int64_t token,
                               int64_t output, const float (&sum)[4], int i) {
    uint16_t* row = static_cast<uint16_t*>(p.y) + token * p.y_stride;
    if (output < p.outputs) row[output] = F32ToBf16(sum[i]);
    if (output + kTileHalf < p.outputs)
      row[output + kTileHalf] = F32ToBf16(sum[i + 2]);
  }
};

struct StoreGateUp {
  static constexpr int kTileRows = kTileHalf;
  __device__ static void Store(const ProductArgs& p, int64_t token,
                               int64_t output, const float (&sum)[4], int i) {
    if (output >= p.outputs) return;
    const Lane gate = RoundToBf16(Lane{sum[i]});
    const Lane up = RoundToBf16(Lane{sum[i + 2]});
    static_cast<uint16_t*>(p.y)[token * p.y_stride + output] =
        F32ToBf16((exact::Silu(gate) * up).value);
  }
};

template <typename Tile, typename Result, int kTokenTiles>
__global__ void __launch_bounds__(kProductThreads)
    ProductKernel(const ProductArgs p) {
  alignas(16)
      __shared__ uint16_t panel[kTokenTiles * kTileTokens * kPanelStride];
  const int64_t tile =
      int64_t{blockIdx.x} * kProductWarps + threadIdx.x / kWarpLanes;
  const int64_t first_token = int64_t{blockIdx.y} * kTokenTiles * kTileTokens;
  const int64_t column_tiles = ColumnTiles(p.cols);
  const uint16_t* tile_row =
      tile < p.tiles ? p.weights + tile * column_tiles * kTileElements
                     : nullptr;
  Sums<kTokenTiles> sums = {};
  Sums<kTokenTiles> partial[kTreeLevels] = {};
  const int64_t slice_cols = p.cols / p.slices;
  for (int slice = 0; slice < p.slices; ++slice) {
    SumSlice<Tile, kTokenTiles>(p, tile_row, first_token, slice * slice_cols,
                                (slice + 1) * slice_cols, panel, sums);
    AddSlice<kTokenTiles>(slice, partial, sums);
  }
  if (tile_row == nullptr) return;
  const int lane = threadIdx.x % kWarpLanes;
  const int64_t output = tile * Result::kTileRows + lane / 4;
#pragma unroll
  for (int n = 0; n < kTokenTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int64_t token = first_token + n * kTileTokens + lane % 4 * 2 + i;
      if (token < p.tokens) Result::Store(p, token, output, sums[n], i);
    }
  }
}

template <typename Tile, typename Result, int kTokenTiles>
cudaError_t LaunchProduct(const ProductArgs& p, cudaStream_t stream) {
  constexpr int64_t kBlockTokens = kTokenTiles * kTileTokens;
  cudaLaunchConfig_t config = {};
  config.gridDim =
      dim3(static_cast<unsigned>((p.tiles + kProductWarps - 1) / kProductWarps),
           static_cast<unsigned>((p.tokens + kBlockTokens - 1) / kBlockTokens));
  config.blockDim = dim3(kProductThreads);
  config.stream = stream;
  return cudaLaunchKernelEx(&config, ProductKernel<Tile, Result, kTokenTiles>,
                            p);
}

// Few tokens get narrow blocks: decode has more weights than arithmetic. The
// order of summation is the same in both.
template <typename Tile, typename Result>
cudaError_t LaunchProduct(const ProductArgs& p, cudaStream_t stream) {
  return p.tokens <= kTileTokens ? LaunchProduct<Tile, Result, 1>(p, stream)
                                 : LaunchProduct<Tile, Result, 4>(p, stream);
}

template <typename Tile>
cudaError_t LaunchProduct(const ProductArgs& p, ProductResult result,
                          cudaStream_t stream) {
  switch (result) {
    case ProductResult::kF32:
      return LaunchProduct<Tile, StoreF32>(p, stream);
    case ProductResult::kBf16:
      return LaunchProduct<Tile, StoreBf16>(p, stream);
    case ProductResult::kGateUp:
      return LaunchProduct<Tile, StoreGateUp>(p, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace phalanx::cuda

#endif  // PHALANX_KERNELS_CUDA_PRODUCT_CUH_
