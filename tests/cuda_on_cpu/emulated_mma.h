#ifndef PHALANX_TESTS_CUDA_ON_CPU_EMULATED_MMA_H_
#define PHALANX_TESTS_CUDA_ON_CPU_EMULATED_MMA_H_

#include "kernels/cuda/kernels.h"

namespace phalanx::cuda_on_cpu {

// The product of kernels/cuda/mma_tile.cuh with a stand-in for the instruction:
// which lane holds which element as the PTX manual says, sums in the order of
// columns.
cudaError_t EmulatedTensorCoreProduct(const cuda::ProductArgs& args,
                                      cuda::ProductResult result,
                                      cudaStream_t stream);

}  // namespace phalanx::cuda_on_cpu

#endif  // PHALANX_TESTS_CUDA_ON_CPU_EMULATED_MMA_H_
