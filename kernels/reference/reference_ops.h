#ifndef PHALANX_KERNELS_REFERENCE_REFERENCE_OPS_H_
#define PHALANX_KERNELS_REFERENCE_REFERENCE_OPS_H_

#include "kernels/ops.h"

namespace phalanx {

// The operations of ReferenceBackend: each is its formula in ops.h, in double,
// rounded to f32 once, on store. What the contract says is added in f32 or
// kept in f32 (the tree over slices, the state between tokens) is so here too,
// so that TP sizes and cuts into steps give equal bits. Also CHECKs the values
// that served backends must trust: rows, blocks and slots out of range.
class ReferenceOps final : public Ops {
 public:
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
};

}  // namespace phalanx

#endif  // PHALANX_KERNELS_REFERENCE_REFERENCE_OPS_H_
