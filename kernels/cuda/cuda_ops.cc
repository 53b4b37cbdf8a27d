#include "kernels/cuda/cuda_ops.h"

#include "kernels/cuda/packed_tile.h"
#include "kernels/op_checks.h"

namespace phalanx::cuda {
namespace {

constexpr DType kAct = DType::kBf16;

template <typename T>
Strided<T> StridedOf(const Tensor& t) {
  return {static_cast<T*>(t.data), t.row_stride};
}

HeadsShape HeadsOf(const Tensor& x) {
  return {x.dims[0], x.rank == 3 ? x.dims[1] : 1, x.dims[x.rank - 1]};
}

ProductResult ResultOf(DType type) {
  return type == DType::kF32 ? ProductResult::kF32 : ProductResult::kBf16;
}

}  // namespace

template <typename Launch>
void CudaOps::Enqueue(const char* op, const Launch& launch) {
  // The current device is a matter of the thread, and whose thread this is,
  // nobody has said.
  cudaError_t error = cudaSetDevice(to_.device);
  if (error == cudaSuccess) error = launch(to_.stream);
  if (error == cudaSuccess && to_.synchronize_each_op)
    error = cudaStreamSynchronize(to_.stream);
  errors_.Enqueued(op, error);
}

void CudaOps::Product(const char* op, Tensor x, const PackedWeight& w,
                      int slices, ProductResult result, Tensor y) {
  if (y.elements() == 0) return;
  ProductArgs args;
  args.x = static_cast<const uint16_t*>(x.data);
  args.x_stride = x.row_stride;
  args.tokens = x.dims[0];
  args.weights = static_cast<const uint16_t*>(w.storage.data());
  args.cols = w.cols;
  args.tiles = OutputTiles(w.layout, w.rows);
  args.slices = slices;
  args.y = y.data;
  args.y_stride = y.row_stride;
  args.outputs = y.dims[1];
  const bool by_tensor_cores =
      tensor_core_ != nullptr && TensorCoresTake(w.cols, slices);
  const ProductFn product = by_tensor_cores ? tensor_core_ : ScalarProduct;
  Enqueue(op,
          [&](cudaStream_t stream) { return product(args, result, stream); });
}

void CudaOps::MatMul(Tensor x, const PackedWeight& w, Tensor y) {
  CheckMatMul(x, w, y, kAct);
  Product("MatMul", x, w, 1, ResultOf(y.dtype), y);
}

void CudaOps::GateUp(Tensor x, const PackedWeight& w, Tensor y) {
  CheckGateUp(x, w, y, kAct);
  Product("GateUp", x, w, 1, ProductResult::kGateUp, y);
}

void CudaOps::MatMulSliced(Tensor x, const PackedWeight& w, int slices,
                           Tensor y) {
  CheckMatMulSliced(x, w, slices, y, kAct);
  Product("MatMulSliced", x, w, slices, ProductResult::kF32, y);
}

void CudaOps::RmsNorm(Tensor x, Tensor w, float eps, Tensor y) {
  CheckRmsNorm(x, w, eps, y, kAct);
  if (x.elements() == 0) return;
  Enqueue("RmsNorm", [&](cudaStream_t stream) {
    return cuda::RmsNorm(HeadsOf(x), StridedOf<const uint16_t>(x),
                         static_cast<const float*>(w.data), eps,
                         StridedOf<uint16_t>(y), stream);
  });
}

void CudaOps::GatedRmsNorm(Tensor x, Tensor z, Tensor w, float eps, Tensor y) {
  CheckGatedRmsNorm(x, z, w, eps, y, kAct);
  if (x.elements() == 0) return;
  Enqueue("GatedRmsNorm", [&](cudaStream_t stream) {
    return cuda::GatedRmsNorm(
        HeadsOf(x), StridedOf<const float>(x), StridedOf<const uint16_t>(z),
        static_cast<const float*>(w.data), eps, StridedOf<uint16_t>(y), stream);
  });
}

void CudaOps::L2Norm(Tensor x, float scale, Tensor y) {
  CheckL2Norm(x, y);
  if (x.elements() == 0) return;
  Enqueue("L2Norm", [&](cudaStream_t stream) {
    return cuda::L2Norm(HeadsOf(x), StridedOf<const float>(x), scale,
                        StridedOf<float>(y), stream);
  });
}

void CudaOps::Copy(Tensor x, Tensor y) {
  CheckCopy(x, y);
  if (y.elements() == 0 || x.data == y.data) return;
  const int64_t size = ElementBytes(x.dtype);
  Enqueue("Copy", [&](cudaStream_t stream) {
    return cuda::Copy({y.dims[0], y.dims[1] * size},
                      {static_cast<const char*>(x.data), x.row_stride * size},
                      {static_cast<char*>(y.data), y.row_stride * size},
                      stream);
  });
}

void CudaOps::Add(Tensor a, Tensor b, Tensor y) {
  CheckAdd(a, b, y, kAct);
  if (y.elements() == 0) return;
  Enqueue("Add", [&](cudaStream_t stream) {
    return cuda::Add({y.dims[0], y.dims[1]}, StridedOf<const uint16_t>(a),
                     StridedOf<const uint16_t>(b), StridedOf<uint16_t>(y),
                     stream);
  });
}

void CudaOps::Round(Tensor x, Tensor y) {
  CheckRound(x, y, kAct);
  if (y.elements() == 0) return;
  Enqueue("Round", [&](cudaStream_t stream) {
    return cuda::Round({y.dims[0], y.dims[1]}, StridedOf<const float>(x),
                       StridedOf<uint16_t>(y), stream);
  });
}

void CudaOps::MulSigmoid(Tensor x, Tensor gate, Tensor y) {
  CheckMulSigmoid(x, gate, y, kAct);
  if (y.elements() == 0) return;
  Enqueue("MulSigmoid", [&](cudaStream_t stream) {
    return cuda::MulSigmoid({y.dims[0], y.dims[1]}, StridedOf<const float>(x),
                            StridedOf<const uint16_t>(gate),
                            StridedOf<uint16_t>(y), stream);
  });
}

}  // namespace phalanx::cuda
