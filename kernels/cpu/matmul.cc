#include "kernels/cpu/matmul.h"

#include "kernels/cpu/kernels.h"

namespace phalanx::PHALANX_ISA {

void MatMul(ThreadPool& pool, Tensor x, const PackedWeight& w, Tensor y) {
  MatMulAs<FmaDot>(pool, x, w, y);
}

void MatMulSliced(ThreadPool& pool, Tensor x, const PackedWeight& w, int slices,
                  Tensor y) {
  MatMulSlicedAs<FmaDot>(pool, x, w, slices, y);
}

void GateUp(ThreadPool& pool, Tensor x, const PackedWeight& w, Tensor y) {
  GateUpAs<FmaDot>(pool, x, w, y);
}

}  // namespace phalanx::PHALANX_ISA
