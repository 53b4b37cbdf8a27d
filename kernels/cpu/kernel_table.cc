#include "kernels/cpu/kernel_table.h"

#include "kernels/cpu/kernels.h"

namespace phalanx::PHALANX_ISA {

// What this instruction set offers, kernel family fma.
const KernelTable& Table();

const KernelTable& Table() {
  static const KernelTable kTable = {
      .products = {{
          {.matrix_bytes = MatrixBytes,
           .pack_weight = PackWeight,
           .pack_codes = nullptr,
           .mat_mul = MatMul,
           .gate_up = GateUp,
           .mat_mul_sliced = MatMulSliced,
           .experts_gate_up = ExpertsGateUp,
           .experts_down = ExpertsDown},
          kInt8Products,
          kInt4Products,
      }},
      .quantise_weight_row = QuantWeightRow,
      .route = Route,
      .rms_norm = RmsNorm,
      .gated_rms_norm = GatedRmsNorm,
      .l2_norm = L2Norm,
      .embed = Embed,
      .select_owner = SelectOwner,
      .gather_rows = GatherRows,
      .copy = Copy,
      .add = Add,
      .round = Round,
      .mul_sigmoid = MulSigmoid,
      .rope = Rope,
      .store_kv = StoreKv,
      .paged_attention = PagedAttention,
      .conv_silu = ConvSilu,
      .gdn_gates = GdnGates,
      .gated_delta = GatedDelta,
  };
  return kTable;
}

}  // namespace phalanx::PHALANX_ISA
