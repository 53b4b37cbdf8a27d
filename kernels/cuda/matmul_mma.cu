// The product by tensor cores. For nvcc alone; all but the instruction runs on
// processors too (tests/cuda_on_cpu/emulated_mma.cc).

#include "kernels/cuda/mma_tile.cuh"

namespace phalanx::cuda {
namespace {

struct TensorCores {
  __device__ static void Multiply(uint4 a, uint2 b, float (&c)[4]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b.x), "r"(b.y));
  }
};

}  // namespace

cudaError_t TensorCoreProduct(const ProductArgs& args, ProductResult result,
                              cudaStream_t stream) {
  return LaunchProduct<MmaTile<TensorCores>>(args, result, stream);
}

}  // namespace phalanx::cuda
