// Norms and elementwise.

#include <algorithm>
#include <cmath>

#include "kernels/op_checks.h"
#include "kernels/reference/functions.h"
#include "kernels/reference/reference_ops.h"

namespace phalanx {
namespace {

double SumOfSquares(const float* x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += double{x[i]} * x[i];
  return sum;
}

}  // namespace

void ReferenceOps::RmsNorm(Tensor x, Tensor w, float eps, Tensor y) {
  CheckRmsNorm(x, w, eps, y, DType::kF32);
  const int64_t D = w.dims[0];
  const int64_t heads = x.rank == 3 ? x.dims[1] : 1;
  const auto* weight = static_cast<const float*>(w.data);
  for (int64_t t = 0; t < x.dims[0]; ++t) {
    for (int64_t n = 0; n < heads; ++n) {
      const float* in = x.row<float>(t) + n * D;
      float* out = y.row<float>(t) + n * D;
      const double norm = std::sqrt(SumOfSquares(in, D) / D + double{eps});
      for (int64_t i = 0; i < D; ++i)
        out[i] = static_cast<float>(in[i] / norm * weight[i]);
    }
  }
}

void ReferenceOps::GatedRmsNorm(Tensor x, Tensor z, Tensor w, float eps,
                                Tensor y) {
  CheckGatedRmsNorm(x, z, w, eps, y, DType::kF32);
  const int64_t D = w.dims[0];
  const auto* weight = static_cast<const float*>(w.data);
  for (int64_t t = 0; t < x.dims[0]; ++t) {
    for (int64_t n = 0; n < x.dims[1]; ++n) {
      const float* in = x.row<float>(t) + n * D;
      const float* gate = z.row<float>(t) + n * D;
      float* out = y.row<float>(t) + n * D;
      const double norm = std::sqrt(SumOfSquares(in, D) / D + double{eps});
      for (int64_t i = 0; i < D; ++i)
        out[i] = static_cast<float>(in[i] / norm * weight[i] * Silu(gate[i]));
    }
  }
}

void ReferenceOps::L2Norm(Tensor x, float scale, Tensor y) {
  CheckL2Norm(x, y);
  const int64_t D = x.dims[2];
  for (int64_t t = 0; t < x.dims[0]; ++t) {
    for (int64_t n = 0; n < x.dims[1]; ++n) {
      const float* in = x.row<float>(t) + n * D;
      float* out = y.row<float>(t) + n * D;
      const double norm = std::sqrt(SumOfSquares(in, D) + 1e-6);
      for (int64_t i = 0; i < D; ++i)
        out[i] = static_cast<float>(in[i] / norm * scale);
    }
  }
}

void ReferenceOps::Add(Tensor a, Tensor b, Tensor y) {
  CheckAdd(a, b, y, DType::kF32);
  for (int64_t t = 0; t < a.dims[0]; ++t) {
    for (int64_t i = 0; i < a.dims[1]; ++i)
      y.row<float>(t)[i] = a.row<float>(t)[i] + b.row<float>(t)[i];
  }
}

void ReferenceOps::Round(Tensor x, Tensor y) {
  CheckRound(x, y, DType::kF32);
  for (int64_t t = 0; t < x.dims[0]; ++t)
    std::copy_n(x.row<float>(t), x.dims[1], y.row<float>(t));
}

void ReferenceOps::MulSigmoid(Tensor x, Tensor gate, Tensor y) {
  CheckMulSigmoid(x, gate, y, DType::kF32);
  for (int64_t t = 0; t < x.dims[0]; ++t) {
    for (int64_t i = 0; i < x.dims[1]; ++i) {
      y.row<float>(t)[i] = static_cast<float>(x.row<float>(t)[i] *
                                              Sigmoid(gate.row<float>(t)[i]));
    }
  }
}

}  // namespace phalanx
