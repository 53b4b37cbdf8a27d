#include "worker/collective/sum_tree.h"

#include <algorithm>
#include <array>

#include "common/check.h"
#include "kernels/bf16.h"

namespace phalanx {
namespace {

using Planes = std::span<const float* const>;

// How many sums wait for their rounding.
constexpr int64_t kRoundedTogether = 512;

template <int N>
inline float Tree(const float* const* planes, int64_t i) {
  if constexpr (N == 1) {
    return planes[0][i];
  } else {
    return Tree<N / 2>(planes, i) + Tree<N / 2>(planes + N / 2, i);
  }
}

template <int N>
[[gnu::always_inline]] inline void Sum(Planes planes, int64_t count,
                                       float* out) {
  // Copied, so that the pointers stay in registers.
  std::array<const float*, N> plane;
  std::copy_n(planes.begin(), N, plane.begin());
  // `out` may be a plane, but no element is read after it was written.
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) out[i] = Tree<N>(plane.data(), i);
}

// Sums first, then rounds: planes come from other processors' caches, and a
// processor looks only so many instructions ahead, so few of them should lie
// between two loads.
template <int N>
[[gnu::always_inline]] inline void Sum(Planes planes, int64_t count,
                                       uint16_t* __restrict out) {
  std::array<const float*, N> rest;
  std::copy_n(planes.begin(), N, rest.begin());
  std::array<float, kRoundedTogether> sums;
  while (count > 0) {
    const int64_t block = std::min(count, kRoundedTogether);
    Sum<N>(rest, block, sums.data());
    for (int64_t i = 0; i < block; ++i) out[i] = F32ToBf16(sums[i]);
    for (const float*& plane : rest) plane += block;
    out += block;
    count -= block;
  }
}

template <typename Out>
[[gnu::always_inline]] inline void SumAny(Planes planes, int64_t count,
                                          Out* out) {
  switch (planes.size()) {
    case 1:
      return Sum<1>(planes, count, out);
    case 2:
      return Sum<2>(planes, count, out);
    case 4:
      return Sum<4>(planes, count, out);
    case 8:
      return Sum<8>(planes, count, out);
    case 16:
      return Sum<16>(planes, count, out);
  }
  CHECK(IsGroupSize(static_cast<int>(planes.size())));
}

// The same loops, compiled for wider vectors.
template <typename Out>
[[gnu::target("avx2")]] void SumAvx2(Planes planes, int64_t count, Out* out) {
  SumAny(planes, count, out);
}

template <typename Out>
void SumFastest(Planes planes, int64_t count, Out* out) {
  if (__builtin_cpu_supports("avx2")) return SumAvx2(planes, count, out);
  SumAny(planes, count, out);
}

}  // namespace

void SumPlanes(Planes planes, int64_t count, float* out) {
  SumFastest(planes, count, out);
}

void SumPlanes(Planes planes, int64_t count, uint16_t* out) {
  SumFastest(planes, count, out);
}

void SumPlanesPortably(Planes planes, int64_t count, float* out) {
  SumAny(planes, count, out);
}

void SumPlanesPortably(Planes planes, int64_t count, uint16_t* out) {
  SumAny(planes, count, out);
}

}  // namespace phalanx
