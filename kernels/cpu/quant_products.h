#ifndef PHALANX_KERNELS_CPU_QUANT_PRODUCTS_H_
#define PHALANX_KERNELS_CPU_QUANT_PRODUCTS_H_

#include "kernels/cpu/experts.h"
#include "kernels/cpu/experts_down.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/quant_tile.h"

namespace phalanx::PHALANX_ISA {

// The products of one quantised format with one kind of byte product.
template <WeightFormat kFormat, typename Lanes>
constexpr ProductKernels QuantProductsAs() {
  using D = IntDot<kFormat, Lanes>;
  return {.matrix_bytes = QuantMatrixBytes,
          .pack_weight = QuantPackWeight,
          .pack_codes = QuantPackCodes,
          .mat_mul = MatMulAs<D>,
          .gate_up = GateUpAs<D>,
          .mat_mul_sliced = MatMulSlicedAs<D>,
          .experts_gate_up = ExpertsGateUpAs<D>,
          .experts_down = ExpertsDownAs<D>};
}

}  // namespace phalanx::PHALANX_ISA

#endif  // PHALANX_KERNELS_CPU_QUANT_PRODUCTS_H_
