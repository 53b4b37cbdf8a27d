#ifndef PHALANX_KERNELS_CUDA_MMA_TILE_CUH_
#define PHALANX_KERNELS_CUDA_MMA_TILE_CUH_

// The tile of product.cuh for an instruction that multiplies 16 outputs by 8
// tokens over 16 columns. Instruction::Multiply(a, b, c) is mma.m16n8k16 on
// bf16, c += a b; a test may put its own in the place of the hardware's.

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/packed_tile.h"
#include "kernels/cuda/product.cuh"

namespace phalanx::cuda {

// One instruction for each 16 columns, in their order, on one accumulator. What
// an element of it becomes depends on a row of a, a column of b and itself;
// tokens are columns, so neighbours are no operands. Takes whole tiles only
// (TensorCoresTake).
template <typename Instruction>
struct MmaTile {
  template <int kTokenTiles>
  __device__ static void Multiply(const uint16_t* weights,
                                  const uint16_t* panel, int lane, int, int,
                                  Sums<kTokenTiles>& sums) {
    const uint4 a =
        *reinterpret_cast<const uint4*>(weights + lane * kLaneElements);
    const uint16_t* tokens = panel + lane / 4 * kPanelStride + lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < kTokenTiles; ++n) {
      const uint16_t* at = tokens + n * kTileTokens * kPanelStride;
      const uint2 b = {*reinterpret_cast<const uint32_t*>(at),
                       *reinterpret_cast<const uint32_t*>(at + 8)};
      Instruction::Multiply(a, b, sums[n]);
    }
  }
};

}  // namespace phalanx::cuda

#endif  // PHALANX_KERNELS_CUDA_MMA_TILE_CUH_
