#ifndef PHALANX_KERNELS_CPU_MATMUL_H_
#define PHALANX_KERNELS_CPU_MATMUL_H_

// Ops::MatMul, MatMulSliced and GateUp, for any kernel family D.

#include "kernels/cpu/matmul_product.h"
#include "kernels/cpu/vec.h"

namespace phalanx::PHALANX_ISA {

// Stores what a tile yields at its place in a row of `outputs` elements.
template <typename T>
void StoreTile(const float* values, int64_t tile, int64_t outputs, T* row) {
  const int64_t first = tile * kTileOutputs;
  const int64_t left = Min(kTileOutputs, outputs - first);
  StorePart(row + first, Load(values), Min(left, kLanes));
  if (left > kLanes)
    StorePart(row + first + kLanes, Load(values + kLanes), left - kLanes);
}

// The same for a tile of 16 gates and 16 ups: y = silu(gate) * up, of products
// that were rounded to bf16 first.
inline void StoreGateUpTile(const float* values, int64_t tile, int64_t outputs,
                            uint16_t* row) {
  const int64_t first = tile * kLanes;
  const F32x16 gate = RoundToBf16(Load(values));
  const F32x16 up = RoundToBf16(Load(values + kLanes));
  StorePart(row + first, Silu(gate) * up, Min(kLanes, outputs - first));
}

template <typename D>
void MatMulSlicedAs(ThreadPool& pool, Tensor x, const PackedWeight& w,
                    int slices, Tensor y) {
  if (y.dtype == DType::kF32) {
    Product<D>(pool, x, w, slices,
               [&](int64_t r, int64_t tile, const float* v) {
                 StoreTile(v, tile, w.rows, y.row<float>(r));
               });
  } else {
    Product<D>(pool, x, w, slices,
               [&](int64_t r, int64_t tile, const float* v) {
                 StoreTile(v, tile, w.rows, y.row<uint16_t>(r));
               });
  }
}

template <typename D>
void MatMulAs(ThreadPool& pool, Tensor x, const PackedWeight& w, Tensor y) {
  MatMulSlicedAs<D>(pool, x, w, 1, y);
}

template <typename D>
void GateUpAs(ThreadPool& pool, Tensor x, const PackedWeight& w, Tensor y) {
  Product<D>(pool, x, w, 1, [&](int64_t r, int64_t tile, const float* v) {
    StoreGateUpTile(v, tile, w.rows / 2, y.row<uint16_t>(r));
  });
}

}  // namespace phalanx::PHALANX_ISA

#endif  // PHALANX_KERNELS_CPU_MATMUL_H_
