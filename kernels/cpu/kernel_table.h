#ifndef PHALANX_KERNELS_CPU_KERNEL_TABLE_H_
#define PHALANX_KERNELS_CPU_KERNEL_TABLE_H_

// One instruction set's kernels. Every kernel file is compiled once for each
// set, in a namespace of its own, and CpuOps calls through the table that
// isa.h chose. Arguments are those of Ops, whose contract holds; shapes were
// checked before (kernels/op_checks.h). act is bf16.

#include <array>
#include <cstdint>

#include "kernels/packed_weight.h"
#include "kernels/quantise.h"
#include "kernels/sequences.h"
#include "kernels/tensor.h"

namespace phalanx {

class ThreadPool;

// Products of weights in one format: matmul.cc, experts.cc, pack.cc; quant.cc,
// quant_vnni.cc, quant_pack.cc.
struct ProductKernels {
  // The bytes of one matrix, padding included.
  int64_t (*matrix_bytes)(const WeightShape& shape);
  void (*pack_weight)(const uint16_t* host, int64_t index, PackedWeight& w);
  // Null for bf16.
  void (*pack_codes)(const uint8_t* codes, const uint16_t* scales,
                     int64_t index, PackedWeight& w);
  void (*mat_mul)(ThreadPool&, Tensor x, const PackedWeight& w, Tensor y);
  void (*gate_up)(ThreadPool&, Tensor x, const PackedWeight& w, Tensor y);
  void (*mat_mul_sliced)(ThreadPool&, Tensor x, const PackedWeight& w,
                         int slices, Tensor y);
  void (*experts_gate_up)(ThreadPool&, Tensor x, const PackedWeight& w,
                          Routing routing, Tensor hidden);
  void (*experts_down)(ThreadPool&, Tensor hidden, const PackedWeight& w,
                       Routing routing, Tensor shared_hidden,
                       const PackedWeight& shared_w, Tensor shared_gate,
                       int slices, Tensor y);
};

struct KernelTable {
  // By WeightFormat.
  std::array<ProductKernels, kWeightFormats> products;

  const ProductKernels& of(WeightFormat format) const {
    return products[static_cast<size_t>(format)];
  }

  // quant_pack.cc
  WeightRowQuantiser quantise_weight_row;

  // route.cc
  void (*route)(ThreadPool&, Tensor logits, bool renormalise, Routing routing);
  // norm.cc
  void (*rms_norm)(ThreadPool&, Tensor x, Tensor w, float eps, Tensor y);
  void (*gated_rms_norm)(ThreadPool&, Tensor x, Tensor z, Tensor w, float eps,
                         Tensor y);
  void (*l2_norm)(ThreadPool&, Tensor x, float scale, Tensor y);
  // elementwise.cc
  void (*embed)(ThreadPool&, Tensor ids, Tensor table, int64_t first_id,
                Tensor y);
  void (*select_owner)(ThreadPool&, Tensor ids, int64_t rows_per_rank,
                       Tensor gathered, Tensor y);
  void (*gather_rows)(ThreadPool&, Tensor x, Tensor rows, Tensor y);
  void (*copy)(ThreadPool&, Tensor x, Tensor y);
  void (*add)(ThreadPool&, Tensor a, Tensor b, Tensor y);
  void (*round)(ThreadPool&, Tensor x, Tensor y);
  void (*mul_sigmoid)(ThreadPool&, Tensor x, Tensor gate, Tensor y);
  // rope.cc
  void (*rope)(ThreadPool&, Tensor positions, Tensor inv_freq, Tensor x);
  // attention.cc
  void (*store_kv)(ThreadPool&, Tensor k, Tensor v, Tensor places, Tensor keys,
                   Tensor values);
  void (*paged_attention)(ThreadPool&, Tensor q, Tensor keys, Tensor values,
                          const Sequences& sequences, float scale, Tensor y);
  // conv.cc, gated_delta.cc
  void (*conv_silu)(ThreadPool&, Tensor x, Tensor w, const Sequences& sequences,
                    Tensor state, Tensor y);
  void (*gdn_gates)(ThreadPool&, Tensor a, Tensor b, Tensor a_log,
                    Tensor dt_bias, Tensor g, Tensor beta);
  void (*gated_delta)(ThreadPool&, Tensor q, Tensor k, Tensor v, Tensor g,
                      Tensor beta, const Sequences& sequences, Tensor state,
                      Tensor y);
};

}  // namespace phalanx

#endif  // PHALANX_KERNELS_CPU_KERNEL_TABLE_H_
