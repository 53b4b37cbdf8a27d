#ifndef PHALANX_TESTS_KERNELS_CPU_VEC_PROBE_H_
#define PHALANX_TESTS_KERNELS_CPU_VEC_PROBE_H_

#include <cstdint>

namespace phalanx {

enum class LaneFunction {
  kExp,
  kLog,
  kLog1p,
  kRsqrt,
  kSigmoid,
  kSilu,
  kSoftplus,
  kSin,
  kCos,
  kRoundToBf16,
};

// The operations of vec.h that tests look at, on memory. Sixteen floats unless
// said otherwise.
struct VecProbe {
  void (*apply)(LaneFunction, const float* x, float* y);
  float (*sum)(const float* x);
  float (*largest)(const float* x);
  void (*sums)(const float* x, float* y);  // x: sixteen times sixteen.
  void (*copy_part)(const float* x, float* y, int64_t n);
  void (*copy_part_bf16)(const uint16_t* x, uint16_t* y, int64_t n);
  void (*narrow)(const float* x, uint16_t* y);
};

namespace portable {
const VecProbe& Probe();
}
namespace avx2 {
const VecProbe& Probe();
}
namespace avx512 {
const VecProbe& Probe();
}

}  // namespace phalanx

#endif  // PHALANX_TESTS_KERNELS_CPU_VEC_PROBE_H_
