#ifndef PHALANX_KERNELS_CPU_CPU_OPS_H_
#define PHALANX_KERNELS_CPU_CPU_OPS_H_

#include "kernels/cpu/isa.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/ops.h"

namespace phalanx {

// The kernels of an instruction set that the processor has, and of a family
// that it Supports. `vnni`, for kAvx512 alone: int8 and int4 by AVX512_VNNI,
// with the same bits.
KernelTable CpuTable(Isa isa, KernelFamily family, bool vnni);

// Ops on one processor: checks shapes, then calls the table's kernel on the
// pool. Made by the CPU backend, lives as long as it; one thread at a time.
class CpuOps final : public Ops {
 public:
  // Both outlive this.
  CpuOps(ThreadPool& pool, const KernelTable& table)
      : pool_(pool), table_(table) {}

  void Embed(Tensor ids, Tensor table, int64_t first_id, Tensor y) override;
  void SelectOwner(Tensor ids, int64_t rows_per_rank, Tensor gathered,
                   Tensor y) override;
  void GatherRows(Tensor x, Tensor rows, Tensor y) override;
  void Copy(Tensor x, Tensor y) override;
  void MatMul(Tensor x, const PackedWeight& w, Tensor y) override;
  void GateUp(Tensor x, const PackedWeight& w, Tensor y) override;
  void MatMulSliced(Tensor x, const PackedWeight& w, int slices,
                    Tensor y) override;
  void Route(Tensor logits, bool renormalise, Routing routing) override;
  void ExpertsGateUp(Tensor x, const PackedWeight& w, Routing routing,
                     Tensor hidden) override;
  void ExpertsDown(Tensor hidden, const PackedWeight& w, Routing routing,
                   Tensor shared_hidden, const PackedWeight& shared_w,
                   Tensor shared_gate, int slices, Tensor y) override;
  void RmsNorm(Tensor x, Tensor w, float eps, Tensor y) override;
  void GatedRmsNorm(Tensor x, Tensor z, Tensor w, float eps, Tensor y) override;
  void L2Norm(Tensor x, float scale, Tensor y) override;
  void Add(Tensor a, Tensor b, Tensor y) override;
  void Round(Tensor x, Tensor y) override;
  void MulSigmoid(Tensor x, Tensor gate, Tensor y) override;
  void Rope(Tensor positions, Tensor inv_freq, Tensor x) override;
  void StoreKv(Tensor k, Tensor v, Tensor places, Tensor keys,
               Tensor values) override;
  void PagedAttention(Tensor q, Tensor keys, Tensor values,
                      const Sequences& sequences, float scale,
                      Tensor y) override;
  void ConvSilu(Tensor x, Tensor w, const Sequences& sequences, Tensor state,
                Tensor y) override;
  void GdnGates(Tensor a, Tensor b, Tensor a_log, Tensor dt_bias, Tensor g,
                Tensor beta) override;
  void GatedDelta(Tensor q, Tensor k, Tensor v, Tensor g, Tensor beta,
                  const Sequences& sequences, Tensor state, Tensor y) override;

 private:
  ThreadPool& pool_;
  const KernelTable& table_;
};

}  // namespace phalanx

#endif  // PHALANX_KERNELS_CPU_CPU_OPS_H_
