// vec.h of one instruction set, made callable for vec_test. Compiled once for
// each.

#include "tests/kernels/cpu/vec_probe.h"

#include "kernels/cpu/vec.h"

namespace phalanx::PHALANX_ISA {
namespace {

F32x16 Apply(LaneFunction function, F32x16 x) {
  F32x16 sine, cosine;
  switch (function) {
    case LaneFunction::kExp:
      return Exp(x);
    case LaneFunction::kLog:
      return exact::Log(x);
    case LaneFunction::kLog1p:
      return exact::Log1p(x);
    case LaneFunction::kRsqrt:
      return exact::Rsqrt(x);
    case LaneFunction::kSigmoid:
      return Sigmoid(x);
    case LaneFunction::kSilu:
      return Silu(x);
    case LaneFunction::kSoftplus:
      return Softplus(x);
    case LaneFunction::kSin:
      exact::SinCos(x, &sine, &cosine);
      return sine;
    case LaneFunction::kCos:
      exact::SinCos(x, &sine, &cosine);
      return cosine;
    case LaneFunction::kRoundToBf16:
      return RoundToBf16(x);
  }
  return Zero();
}

void ApplyAll(LaneFunction function, const float* x, float* y) {
  Store(y, Apply(function, Load(x)));
}
float Sum(const float* x) { return HorizontalSum(Load(x)); }
float Largest(const float* x) { return HorizontalMax(Load(x)); }
void Sums(const float* x, float* y) {
  F32x16 rows[16];
  for (int i = 0; i < 16; ++i) rows[i] = Load(x + 16 * i);
  Store(y, HorizontalSums(rows));
}
void CopyPart(const float* x, float* y, int64_t n) {
  StorePart(y, LoadPart(x, n), n);
}
void CopyPartBf16(const uint16_t* x, uint16_t* y, int64_t n) {
  StorePart(y, LoadPart(x, n), n);
}
void Narrow16(const float* x, uint16_t* y) { Store(y, Load(x)); }

}  // namespace

const VecProbe& Probe();
const VecProbe& Probe() {
  static constexpr VecProbe kProbe = {ApplyAll, Sum,          Largest, Sums,
                                      CopyPart, CopyPartBf16, Narrow16};
  return kProbe;
}

}  // namespace phalanx::PHALANX_ISA
