#ifndef PHALANX_KERNELS_CUDA_KERNELS_H_
#define PHALANX_KERNELS_CUDA_KERNELS_H_

// What the .cu files offer to the ops: each function enqueues one kernel on the
// stream and returns the launch's error. Pointers are device memory; strides
// are elements from one row to the next. Shapes were checked before, and none
// is empty. No element need be aligned to more than its own size, since a
// tensor may be a block of columns.

#include <cuda_runtime.h>

#include <cstdint>

namespace phalanx::cuda {

// --- matmul.cu, matmul_mma.cu ----------------------------------------------

// x [tokens, cols] times a packed weight, in `slices` equal parts of cols whose
// sums are added by the balanced tree of Ops::MatMulSliced.
struct ProductArgs {
  const uint16_t* x = nullptr;
  int64_t x_stride = 0;
  int64_t tokens = 0;
  const uint16_t* weights = nullptr;  // kernels/cuda/packed_tile.h
  int64_t cols = 0;
  int64_t tiles = 0;  // Rows of tiles.
  int slices = 1;
  void* y = nullptr;
  int64_t y_stride = 0;
  int64_t outputs = 0;  // Elements of a row of y.
};

// What becomes of a sum.
enum class ProductResult : uint8_t {
  kF32,
  kBf16,    // Rounded once.
  kGateUp,  // The tiles are gates and ups: silu(gate) * up, all in bf16.
};

using ProductFn = cudaError_t (*)(const ProductArgs& args, ProductResult result,
                                  cudaStream_t stream);

// One chain of f32 fused multiply-adds over the columns of each slice, from 0:
// the bits of kernel family fma.
cudaError_t ScalarProduct(const ProductArgs& args, ProductResult result,
                          cudaStream_t stream);

// The same in steps of 16 columns by the tensor cores. Needs
// TensorCoresTake(args) and compute capability 8.0.
cudaError_t TensorCoreProduct(const ProductArgs& args, ProductResult result,
                              cudaStream_t stream);

// Whether a product goes to the tensor cores: a slice must be whole steps, so
// that its bits do not depend on where in the weight it begins. A matter of the
// model's shape alone, never of the step's.
constexpr bool TensorCoresTake(int64_t cols, int slices) {
  return cols / slices % 16 == 0;
}

// --- pack.cu ---------------------------------------------------------------

// Fills rows of tiles from rows of a checkpoint, both in device memory. Output
// r < 8 of tile i is row step i + r of `low`, output 8 + r that of `high`; rows
// past the counts are zeros.
struct PackArgs {
  const uint16_t* low = nullptr;
  const uint16_t* high = nullptr;
  int64_t low_rows = 0;
  int64_t high_rows = 0;
  int64_t step = 0;
  int64_t cols = 0;
  int64_t tiles = 0;  // Rows of tiles.
  uint16_t* packed = nullptr;
};
cudaError_t PackTiles(const PackArgs& args, cudaStream_t stream);

// --- norm.cu ---------------------------------------------------------------

// [rows, heads, size]: every head is normalised by itself.
struct HeadsShape {
  int64_t rows = 0;
  int64_t heads = 0;
  int64_t size = 0;
};

template <typename T>
struct Strided {
  T* data = nullptr;
  int64_t stride = 0;
};

cudaError_t RmsNorm(HeadsShape shape, Strided<const uint16_t> x, const float* w,
                    float eps, Strided<uint16_t> y, cudaStream_t stream);
cudaError_t GatedRmsNorm(HeadsShape shape, Strided<const float> x,
                         Strided<const uint16_t> z, const float* w, float eps,
                         Strided<uint16_t> y, cudaStream_t stream);
cudaError_t L2Norm(HeadsShape shape, Strided<const float> x, float scale,
                   Strided<float> y, cudaStream_t stream);

// --- elementwise.cu --------------------------------------------------------

struct RowsShape {
  int64_t rows = 0;
  int64_t size = 0;
};

// All in bytes, and even.
cudaError_t Copy(RowsShape shape, Strided<const char> x, Strided<char> y,
                 cudaStream_t stream);
cudaError_t Add(RowsShape shape, Strided<const uint16_t> a,
                Strided<const uint16_t> b, Strided<uint16_t> y,
                cudaStream_t stream);
cudaError_t Round(RowsShape shape, Strided<const float> x, Strided<uint16_t> y,
                  cudaStream_t stream);
cudaError_t MulSigmoid(RowsShape shape, Strided<const float> x,
                       Strided<const uint16_t> gate, Strided<uint16_t> y,
                       cudaStream_t stream);

}  // namespace phalanx::cuda

#endif  // PHALANX_KERNELS_CUDA_KERNELS_H_
