#ifndef PHALANX_KERNELS_CUDA_CUDA_OPS_H_
#define PHALANX_KERNELS_CUDA_CUDA_OPS_H_

#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/missing_ops.h"

namespace phalanx::cuda {

// Where ops go.
struct OpStream {
  int device = 0;
  cudaStream_t stream = nullptr;
  bool synchronize_each_op = false;
};

// Ops on one card: checks shapes, then enqueues a kernel. Made by the CUDA
// backend, lives as long as it; one thread at a time.
class CudaOps final : public MissingOps {
 public:
  // `errors` outlives this. `tensor_core` is null where products stay scalar.
  CudaOps(OpStream to, ProductFn tensor_core, CudaErrors& errors)
      : to_(to), tensor_core_(tensor_core), errors_(errors) {}

  void Copy(Tensor x, Tensor y) override;
  void MatMul(Tensor x, const PackedWeight& w, Tensor y) override;
  void GateUp(Tensor x, const PackedWeight& w, Tensor y) override;
  void MatMulSliced(Tensor x, const PackedWeight& w, int slices,
                    Tensor y) override;
  void RmsNorm(Tensor x, Tensor w, float eps, Tensor y) override;
  void GatedRmsNorm(Tensor x, Tensor z, Tensor w, float eps, Tensor y) override;
  void L2Norm(Tensor x, float scale, Tensor y) override;
  void Add(Tensor a, Tensor b, Tensor y) override;
  void Round(Tensor x, Tensor y) override;
  void MulSigmoid(Tensor x, Tensor gate, Tensor y) override;

 private:
  // launch(stream) returns the launch's error.
  template <typename Launch>
  void Enqueue(const char* op, const Launch& launch);
  void Product(const char* op, Tensor x, const PackedWeight& w, int slices,
               ProductResult result, Tensor y);

  const OpStream to_;
  const ProductFn tensor_core_;
  CudaErrors& errors_;
};

}  // namespace phalanx::cuda

#endif  // PHALANX_KERNELS_CUDA_CUDA_OPS_H_
