// Kernel family bf16dot: compiled for AVX-512 with BF16 alone.

#include "kernels/cpu/experts.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/matmul.h"

namespace phalanx::PHALANX_ISA {

// Defined by kernel_table.cc.
const KernelTable& Table();

// Table(), its products and attention replaced.
const KernelTable& Bf16DotTable();

const KernelTable& Bf16DotTable() {
  static const KernelTable kTable = [] {
    KernelTable table = Table();
    table.mat_mul = MatMulAs<Bf16Dot>;
    table.mat_mul_sliced = MatMulSlicedAs<Bf16Dot>;
    table.gate_up = GateUpAs<Bf16Dot>;
    table.experts_gate_up = ExpertsGateUpAs<Bf16Dot>;
    table.experts_down = ExpertsDownAs<Bf16Dot>;
    table.paged_attention = PagedAttentionBf16Dot;
    return table;
  }();
  return kTable;
}

}  // namespace phalanx::PHALANX_ISA
