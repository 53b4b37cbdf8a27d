// The product that needs no tensor core: kernel family fma on a card. Also the
// stand-in that runs where there is no card (tests/cuda_on_cpu).

#include "kernels/cuda/product.cuh"

namespace phalanx::cuda {
namespace {

// One fused multiply-add a column and output, in the order of columns.
struct ScalarTile {
  template <int kTokenTiles>
  __device__ static void Multiply(const uint16_t* weights,
                                  const uint16_t* panel, int lane, int from,
                                  int to, Sums<kTokenTiles>& sums) {
    const int output = lane / 4;
    const uint16_t* tokens = panel + lane % 4 * 2 * kPanelStride;
    for (int k = from; k < to; ++k) {
      const float low = Bf16ToF32(weights[PlaceInTile(output, k)]);
      const float high = Bf16ToF32(weights[PlaceInTile(output + 8, k)]);
#pragma unroll
      for (int n = 0; n < kTokenTiles; ++n) {
        const uint16_t* pair = tokens + n * kTileTokens * kPanelStride + k;
        const float even = Bf16ToF32(pair[0]);
        const float odd = Bf16ToF32(pair[kPanelStride]);
        sums[n][0] = __fmaf_rn(even, low, sums[n][0]);
        sums[n][1] = __fmaf_rn(odd, low, sums[n][1]);
        sums[n][2] = __fmaf_rn(even, high, sums[n][2]);
        sums[n][3] = __fmaf_rn(odd, high, sums[n][3]);
      }
    }
  }
};

}  // namespace

cudaError_t ScalarProduct(const ProductArgs& args, ProductResult result,
                          cudaStream_t stream) {
  return LaunchProduct<ScalarTile>(args, result, stream);
}

}  // namespace phalanx::cuda
