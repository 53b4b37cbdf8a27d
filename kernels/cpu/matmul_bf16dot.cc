// Kernel family bf16dot: compiled for AVX-512 with BF16 alone.

#include "kernels/cpu/experts.h"
#include "kernels/cpu/experts_down.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/matmul.h"

namespace phalanx::PHALANX_ISA {

// Defined by kernel_table.cc.
const KernelTable& Table();

// Table(), its products replaced.
const KernelTable& Bf16DotTable();

const KernelTable& Bf16DotTable() {
  static const KernelTable kTable = [] {
    KernelTable table = Table();
    ProductKernels& bf16 =
        table.products[static_cast<size_t>(WeightFormat::kBf16)];
    bf16.mat_mul = MatMulAs<Bf16Dot>;
    bf16.mat_mul_sliced = MatMulSlicedAs<Bf16Dot>;
    bf16.gate_up = GateUpAs<Bf16Dot>;
    bf16.experts_gate_up = ExpertsGateUpAs<Bf16Dot>;
    bf16.experts_down = ExpertsDownAs<Bf16Dot>;
    return table;
  }();
  return kTable;
}

}  // namespace phalanx::PHALANX_ISA
