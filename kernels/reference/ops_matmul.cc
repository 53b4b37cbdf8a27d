// Products, dense and of experts.

#include <array>
#include <vector>

#include "common/check.h"
#include "kernels/op_checks.h"
#include "kernels/reference/functions.h"
#include "kernels/reference/reference_ops.h"
#include "kernels/reference/row_products.h"

namespace phalanx {
namespace {

// One token through gate and up of one matrix.
void GateUpRow(const float* x, const PackedWeight& w, int64_t matrix,
               float* y) {
  const RowProducts products(x, w, 1);
  const int64_t I = w.rows / 2;
  for (int64_t i = 0; i < I; ++i) {
    const auto gate = static_cast<float>(products.Slice(matrix, i, 0));
    const auto up = static_cast<float>(products.Slice(matrix, I + i, 0));
    y[i] = static_cast<float>(Silu(gate) * up);
  }
}

// Neighbours added pairwise, in f32, until one is left.
float TreeSum(std::array<float, kContractionSlices> planes, int slices) {
  for (int width = slices; width > 1; width /= 2) {
    for (int i = 0; i < width / 2; ++i)
      planes[i] = planes[2 * i] + planes[2 * i + 1];
  }
  return planes[0];
}

}  // namespace

void ReferenceOps::MatMul(Tensor x, const PackedWeight& w, Tensor y) {
  CheckMatMul(x, w, y, DType::kF32);
  for (int64_t t = 0; t < x.dims[0]; ++t) {
    const RowProducts products(x.row<float>(t), w, 1);
    for (int64_t o = 0; o < w.rows; ++o)
      y.row<float>(t)[o] = static_cast<float>(products.Slice(0, o, 0));
  }
}

void ReferenceOps::GateUp(Tensor x, const PackedWeight& w, Tensor y) {
  CheckGateUp(x, w, y, DType::kF32);
  for (int64_t t = 0; t < x.dims[0]; ++t)
    GateUpRow(x.row<float>(t), w, 0, y.row<float>(t));
}

void ReferenceOps::MatMulSliced(Tensor x, const PackedWeight& w, int slices,
                                Tensor y) {
  CheckMatMulSliced(x, w, slices, y, DType::kF32);
  for (int64_t t = 0; t < x.dims[0]; ++t) {
    const RowProducts products(x.row<float>(t), w, slices);
    for (int64_t o = 0; o < w.rows; ++o) {
      std::array<float, kContractionSlices> planes{};
      for (int s = 0; s < slices; ++s)
        planes[s] = static_cast<float>(products.Slice(0, o, s));
      y.row<float>(t)[o] = TreeSum(planes, slices);
    }
  }
}

void ReferenceOps::ExpertsGateUp(Tensor x, const PackedWeight& w,
                                 Routing routing, Tensor hidden) {
  CheckExpertsGateUp(x, w, routing, hidden, DType::kF32);
  const int64_t K = routing.expert.dims[1];
  for (int64_t t = 0; t < x.dims[0]; ++t) {
    for (int64_t j = 0; j < K; ++j) {
      const int64_t expert = routing.place(routing.expert.row<int32_t>(t)[j]);
      CHECK(expert >= 0 && expert < w.count);
      GateUpRow(x.row<float>(t), w, expert, hidden.row<float>(t * K + j));
    }
  }
}

void ReferenceOps::ExpertsDown(Tensor hidden, const PackedWeight& w,
                               Routing routing, Tensor shared_hidden,
                               const PackedWeight& shared_w, Tensor shared_gate,
                               int slices, Tensor y) {
  CheckExpertsDown(hidden, w, routing, shared_hidden, shared_w, shared_gate,
                   slices, y, DType::kF32);
  const int64_t K = routing.expert.dims[1];
  for (int64_t t = 0; t < y.dims[0]; ++t) {
    const double gate = Sigmoid(*shared_gate.row<float>(t));
    const RowProducts shared(shared_hidden.row<float>(t), shared_w, slices);
    std::vector<RowProducts> routed;
    for (int64_t j = 0; j < K; ++j)
      routed.emplace_back(hidden.row<float>(t * K + j), w, slices);
    for (int64_t o = 0; o < w.rows; ++o) {
      std::array<float, kContractionSlices> planes{};
      for (int s = 0; s < slices; ++s) {
        double sum = 0;
        for (int64_t j = 0; j < K; ++j) {
          const int64_t expert =
              routing.place(routing.expert.row<int32_t>(t)[j]);
          CHECK(expert >= 0 && expert < w.count);
          sum += routing.weight.row<float>(t)[j] *
                 routed[j].Slice(expert, o, s);
        }
        sum += gate * shared.Slice(0, o, s);
        planes[s] = static_cast<float>(sum);
      }
      y.row<float>(t)[o] = TreeSum(planes, slices);
    }
  }
}

}  // namespace phalanx
