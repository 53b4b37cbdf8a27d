// The three norms. A row's sum of squares is sixteen chains and a fixed tree
// (vec.h), so its bits depend on the row alone.

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vec.h"

namespace phalanx::PHALANX_ISA {
namespace {

constexpr float kL2NormEpsilon = 1e-6f;

// Rough costs for ForRanges: two passes over a row, and with a SiLU.
constexpr double kNsPerElement = 0.15;
constexpr double kNsPerGatedElement = 0.6;

// [T, D] or [T, N, D] as rows of heads.
int64_t HeadCount(const Tensor& x) { return x.rank == 3 ? x.dims[1] : 1; }
int64_t HeadSize(const Tensor& x) { return x.dims[x.rank - 1]; }

template <typename T>
float SumOfSquares(const T* x, int64_t n) {
  F32x16 sum = Zero();
  for (int64_t i = 0; i < n; i += kLanes) {
    const F32x16 part = LoadPart(x + i, n - i);
    sum = Fma(part, part, sum);
  }
  return HorizontalSum(sum);
}

// 1 / sqrt(mean(x^2) + eps) in every lane.
template <typename T>
F32x16 InverseRms(const T* x, int64_t n, float eps) {
  const float mean = SumOfSquares(x, n) / static_cast<float>(n);
  return exact::Rsqrt(Broadcast(mean + eps));
}

void RmsNormHead(const uint16_t* x, const float* w, float eps, int64_t n,
                 uint16_t* y) {
  const F32x16 inverse = InverseRms(x, n, eps);
  for (int64_t i = 0; i < n; i += kLanes) {
    const F32x16 value = LoadPart(x + i, n - i) * inverse;
    StorePart(y + i, value * LoadPart(w + i, n - i), n - i);
  }
}

void GatedRmsNormHead(const float* x, const uint16_t* z, const float* w,
                      float eps, int64_t n, uint16_t* y) {
  const F32x16 inverse = InverseRms(x, n, eps);
  for (int64_t i = 0; i < n; i += kLanes) {
    const F32x16 value = LoadPart(x + i, n - i) * inverse;
    const F32x16 gate = Silu(LoadPart(z + i, n - i));
    StorePart(y + i, value * LoadPart(w + i, n - i) * gate, n - i);
  }
}

void L2NormHead(const float* x, float scale, int64_t n, float* y) {
  const F32x16 inverse =
      exact::Rsqrt(Broadcast(SumOfSquares(x, n) + kL2NormEpsilon));
  for (int64_t i = 0; i < n; i += kLanes) {
    const F32x16 value = LoadPart(x + i, n - i) * inverse;
    StorePart(y + i, value * Broadcast(scale), n - i);
  }
}

}  // namespace

void RmsNorm(ThreadPool& pool, Tensor x, Tensor w, float eps, Tensor y) {
  const int64_t heads = HeadCount(x);
  const int64_t size = HeadSize(x);
  const float* weight = w.row<float>(0);
  ForRanges(pool, x.dims[0], heads * size * kNsPerElement,
            [&](int64_t first, int64_t last) {
              for (int64_t t = first; t < last; ++t)
                for (int64_t h = 0; h < heads; ++h)
                  RmsNormHead(x.row<uint16_t>(t) + h * size, weight, eps, size,
                              y.row<uint16_t>(t) + h * size);
            });
}

void GatedRmsNorm(ThreadPool& pool, Tensor x, Tensor z, Tensor w, float eps,
                  Tensor y) {
  const int64_t heads = HeadCount(x);
  const int64_t size = HeadSize(x);
  const float* weight = w.row<float>(0);
  ForRanges(pool, x.dims[0], heads * size * kNsPerGatedElement,
            [&](int64_t first, int64_t last) {
              for (int64_t t = first; t < last; ++t)
                for (int64_t h = 0; h < heads; ++h)
                  GatedRmsNormHead(x.row<float>(t) + h * size,
                                   z.row<uint16_t>(t) + h * size, weight, eps,
                                   size, y.row<uint16_t>(t) + h * size);
            });
}

void L2Norm(ThreadPool& pool, Tensor x, float scale, Tensor y) {
  const int64_t heads = HeadCount(x);
  const int64_t size = HeadSize(x);
  ForRanges(pool, x.dims[0], heads * size * kNsPerElement,
            [&](int64_t first, int64_t last) {
              for (int64_t t = first; t < last; ++t)
                for (int64_t h = 0; h < heads; ++h)
                  L2NormHead(x.row<float>(t) + h * size, scale, size,
                             y.row<float>(t) + h * size);
            });
}

}  // namespace phalanx::PHALANX_ISA
