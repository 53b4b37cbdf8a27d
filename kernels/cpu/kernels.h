#ifndef PHALANX_KERNELS_CPU_KERNELS_H_
#define PHALANX_KERNELS_CPU_KERNELS_H_

// The kernels of one instruction set, PHALANX_ISA: what each kernel file
// defines and kernel_table.cc collects. Contracts are those of Ops and
// KernelTable.

#include <cstdint>

#include "kernels/cpu/kernel_table.h"
#include "kernels/packed_weight.h"
#include "kernels/sequences.h"
#include "kernels/tensor.h"

namespace phalanx::PHALANX_ISA {

// matmul.cc, experts.cc, pack.cc
int64_t MatrixBytes(const WeightShape& shape);
void PackWeight(const uint16_t* host, int64_t index, PackedWeight& w);
void MatMul(ThreadPool&, Tensor x, const PackedWeight& w, Tensor y);
void GateUp(ThreadPool&, Tensor x, const PackedWeight& w, Tensor y);
void MatMulSliced(ThreadPool&, Tensor x, const PackedWeight& w, int slices,
                  Tensor y);
void ExpertsGateUp(ThreadPool&, Tensor x, const PackedWeight& w,
                   Routing routing, Tensor hidden);
void ExpertsDown(ThreadPool&, Tensor hidden, const PackedWeight& w,
                 Routing routing, Tensor shared_hidden,
                 const PackedWeight& shared_w, Tensor shared_gate, int slices,
                 Tensor y);

// quant.cc, quant_pack.cc
extern const ProductKernels kInt8Products;
extern const ProductKernels kInt4Products;
int64_t QuantMatrixBytes(const WeightShape& shape);
void QuantWeightRow(const uint16_t* row, int64_t cols, int slices,
                    WeightFormat format, uint8_t* codes, uint16_t* scales);
void QuantPackWeight(const uint16_t* host, int64_t index, PackedWeight& w);
void QuantPackCodes(const uint8_t* codes, const uint16_t* scales, int64_t index,
                    PackedWeight& w);

// route.cc
void Route(ThreadPool&, Tensor logits, bool renormalise, Routing routing);

// norm.cc
void RmsNorm(ThreadPool&, Tensor x, Tensor w, float eps, Tensor y);
void GatedRmsNorm(ThreadPool&, Tensor x, Tensor z, Tensor w, float eps,
                  Tensor y);
void L2Norm(ThreadPool&, Tensor x, float scale, Tensor y);

// elementwise.cc
void Embed(ThreadPool&, Tensor ids, Tensor table, int64_t first_id, Tensor y);
void SelectOwner(ThreadPool&, Tensor ids, int64_t rows_per_rank,
                 Tensor gathered, Tensor y);
void GatherRows(ThreadPool&, Tensor x, Tensor rows, Tensor y);
void Copy(ThreadPool&, Tensor x, Tensor y);
void Add(ThreadPool&, Tensor a, Tensor b, Tensor y);
void Round(ThreadPool&, Tensor x, Tensor y);
void MulSigmoid(ThreadPool&, Tensor x, Tensor gate, Tensor y);

// rope.cc
void Rope(ThreadPool&, Tensor positions, Tensor inv_freq, Tensor x);

// attention.cc
void StoreKv(ThreadPool&, Tensor k, Tensor v, Tensor places, Tensor keys,
             Tensor values);
void PagedAttention(ThreadPool&, Tensor q, Tensor keys, Tensor values,
                    const Sequences& sequences, float scale, Tensor y);

// attention_bf16dot.cc: PagedAttention of that family, in avx512 alone.
void PagedAttentionBf16Dot(ThreadPool&, Tensor q, Tensor keys, Tensor values,
                           const Sequences& sequences, float scale, Tensor y);

// conv.cc, gated_delta.cc
void ConvSilu(ThreadPool&, Tensor x, Tensor w, const Sequences& sequences,
              Tensor state, Tensor y);
void GdnGates(ThreadPool&, Tensor a, Tensor b, Tensor a_log, Tensor dt_bias,
              Tensor g, Tensor beta);
void GatedDelta(ThreadPool&, Tensor q, Tensor k, Tensor v, Tensor g,
                Tensor beta, const Sequences& sequences, Tensor state,
                Tensor y);

}  // namespace phalanx::PHALANX_ISA

#endif  // PHALANX_KERNELS_CPU_KERNELS_H_
