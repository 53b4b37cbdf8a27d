#include "kernels/cpu/cpu_ops.h"

#include "common/check.h"
#include "kernels/op_checks.h"

namespace phalanx {

// Each set's objects define these (CMakeLists.txt).
namespace portable {
const KernelTable& Table();
}
namespace avx2 {
const KernelTable& Table();
}
namespace avx512 {
const KernelTable& Table();
const KernelTable& Bf16DotTable();
void UseVnni(KernelTable& table);
}  // namespace avx512

KernelTable CpuTable(Isa isa, KernelFamily family, bool vnni) {
  CHECK((family == KernelFamily::kFma && !vnni) || isa == Isa::kAvx512);
  if (isa == Isa::kPortable) return portable::Table();
  if (isa == Isa::kAvx2) return avx2::Table();
  KernelTable table = family == KernelFamily::kFma ? avx512::Table()
                                                   : avx512::Bf16DotTable();
  if (vnni) avx512::UseVnni(table);
  return table;
}

void CpuOps::Embed(Tensor ids, Tensor table, int64_t first_id, Tensor y) {
  CheckEmbed(ids, table, first_id, y, DType::kBf16);
  pool_.AdoptCaller();
  table_.embed(pool_, ids, table, first_id, y);
}

void CpuOps::SelectOwner(Tensor ids, int64_t rows_per_rank, Tensor gathered,
                         Tensor y) {
  CheckSelectOwner(ids, rows_per_rank, gathered, y, DType::kBf16);
  pool_.AdoptCaller();
  table_.select_owner(pool_, ids, rows_per_rank, gathered, y);
}

void CpuOps::GatherRows(Tensor x, Tensor rows, Tensor y) {
  CheckGatherRows(x, rows, y, DType::kBf16);
  pool_.AdoptCaller();
  table_.gather_rows(pool_, x, rows, y);
}

void CpuOps::Copy(Tensor x, Tensor y) {
  CheckCopy(x, y);
  pool_.AdoptCaller();
  table_.copy(pool_, x, y);
}

void CpuOps::MatMul(Tensor x, const PackedWeight& w, Tensor y) {
  CheckMatMul(x, w, y, DType::kBf16);
  pool_.AdoptCaller();
  table_.of(w.format).mat_mul(pool_, x, w, y);
}

void CpuOps::GateUp(Tensor x, const PackedWeight& w, Tensor y) {
  CheckGateUp(x, w, y, DType::kBf16);
  pool_.AdoptCaller();
  table_.of(w.format).gate_up(pool_, x, w, y);
}

void CpuOps::MatMulSliced(Tensor x, const PackedWeight& w, int slices,
                          Tensor y) {
  CheckMatMulSliced(x, w, slices, y, DType::kBf16);
  pool_.AdoptCaller();
  table_.of(w.format).mat_mul_sliced(pool_, x, w, slices, y);
}

void CpuOps::Route(Tensor logits, bool renormalise, Routing routing) {
  CheckRoute(logits, routing);
  pool_.AdoptCaller();
  table_.route(pool_, logits, renormalise, routing);
}

void CpuOps::ExpertsGateUp(Tensor x, const PackedWeight& w, Routing routing,
                           Tensor hidden) {
  CheckExpertsGateUp(x, w, routing, hidden, DType::kBf16);
  pool_.AdoptCaller();
  table_.of(w.format).experts_gate_up(pool_, x, w, routing, hidden);
}

void CpuOps::ExpertsDown(Tensor hidden, const PackedWeight& w, Routing routing,
                         Tensor shared_hidden, const PackedWeight& shared_w,
                         Tensor shared_gate, int slices, Tensor y) {
  CheckExpertsDown(hidden, w, routing, shared_hidden, shared_w, shared_gate,
                   slices, y, DType::kBf16);
  pool_.AdoptCaller();
  table_.of(w.format).experts_down(pool_, hidden, w, routing, shared_hidden,
                                   shared_w, shared_gate, slices, y);
}

void CpuOps::RmsNorm(Tensor x, Tensor w, float eps, Tensor y) {
  CheckRmsNorm(x, w, eps, y, DType::kBf16);
  pool_.AdoptCaller();
  table_.rms_norm(pool_, x, w, eps, y);
}

void CpuOps::GatedRmsNorm(Tensor x, Tensor z, Tensor w, float eps, Tensor y) {
  CheckGatedRmsNorm(x, z, w, eps, y, DType::kBf16);
  pool_.AdoptCaller();
  table_.gated_rms_norm(pool_, x, z, w, eps, y);
}

void CpuOps::L2Norm(Tensor x, float scale, Tensor y) {
  CheckL2Norm(x, y);
  pool_.AdoptCaller();
  table_.l2_norm(pool_, x, scale, y);
}

void CpuOps::Add(Tensor a, Tensor b, Tensor y) {
  CheckAdd(a, b, y, DType::kBf16);
  pool_.AdoptCaller();
  table_.add(pool_, a, b, y);
}

void CpuOps::Round(Tensor x, Tensor y) {
  CheckRound(x, y, DType::kBf16);
  pool_.AdoptCaller();
  table_.round(pool_, x, y);
}

void CpuOps::MulSigmoid(Tensor x, Tensor gate, Tensor y) {
  CheckMulSigmoid(x, gate, y, DType::kBf16);
  pool_.AdoptCaller();
  table_.mul_sigmoid(pool_, x, gate, y);
}

void CpuOps::Rope(Tensor positions, Tensor inv_freq, Tensor x) {
  CheckRope(positions, inv_freq, x, DType::kBf16);
  pool_.AdoptCaller();
  table_.rope(pool_, positions, inv_freq, x);
}

void CpuOps::StoreKv(Tensor k, Tensor v, Tensor places, Tensor keys,
                     Tensor values) {
  CheckStoreKv(k, v, places, keys, values, DType::kBf16);
  pool_.AdoptCaller();
  table_.store_kv(pool_, k, v, places, keys, values);
}

void CpuOps::PagedAttention(Tensor q, Tensor keys, Tensor values,
                            const Sequences& sequences, float scale, Tensor y) {
  CheckPagedAttention(q, keys, values, sequences, y, DType::kBf16);
  pool_.AdoptCaller();
  table_.paged_attention(pool_, q, keys, values, sequences, scale, y);
}

void CpuOps::ConvSilu(Tensor x, Tensor w, const Sequences& sequences,
                      Tensor state, Tensor y) {
  CheckConvSilu(x, w, sequences, state, y, DType::kBf16);
  pool_.AdoptCaller();
  table_.conv_silu(pool_, x, w, sequences, state, y);
}

void CpuOps::GdnGates(Tensor a, Tensor b, Tensor a_log, Tensor dt_bias,
                      Tensor g, Tensor beta) {
  CheckGdnGates(a, b, a_log, dt_bias, g, beta, DType::kBf16);
  pool_.AdoptCaller();
  table_.gdn_gates(pool_, a, b, a_log, dt_bias, g, beta);
}

void CpuOps::GatedDelta(Tensor q, Tensor k, Tensor v, Tensor g, Tensor beta,
                        const Sequences& sequences, Tensor state, Tensor y) {
  CheckGatedDelta(q, k, v, g, beta, sequences, state, y);
  pool_.AdoptCaller();
  table_.gated_delta(pool_, q, k, v, g, beta, sequences, state, y);
}

}  // namespace phalanx
