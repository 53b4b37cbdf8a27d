#include "worker/collective/sum_tree.h"

#include <algorithm>
#include <array>

#include "common/check.h"
#include "kernels/bf16.h"

namespace phalanx {
namespace {

void Store(float sum, float& out) { out = sum; }
void Store(float sum, uint16_t& out) { out = F32ToBf16(sum); }

template <int N>
inline float Tree(const float* const* planes, int64_t i) {
  if constexpr (N == 1) {
    return planes[0][i];
  } else {
    return Tree<N / 2>(planes, i) + Tree<N / 2>(planes + N / 2, i);
  }
}

template <int N, typename Out>
void Sum(std::span<const float* const> planes, int64_t count,
         Out* __restrict out) {
  // Copied, so that the pointers stay in registers.
  std::array<const float*, N> plane;
  std::copy_n(planes.begin(), N, plane.begin());
  for (int64_t i = 0; i < count; ++i) Store(Tree<N>(plane.data(), i), out[i]);
}

template <typename Out>
void SumAny(std::span<const float* const> planes, int64_t count, Out* out) {
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

}  // namespace

void SumPlanes(std::span<const float* const> planes, int64_t count,
               float* out) {
  SumAny(planes, count, out);
}

void SumPlanes(std::span<const float* const> planes, int64_t count,
               uint16_t* out) {
  SumAny(planes, count, out);
}

}  // namespace phalanx
