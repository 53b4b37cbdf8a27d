// Rotary position embedding. The sines of sixteen angles serve all heads of a
// token.

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vec.h"

namespace phalanx::PHALANX_ISA {
namespace {

// Rough costs for ForRanges: of an angle, and of turning one pair by it.
constexpr double kNsPerAngle = 2.0;
constexpr double kNsPerPair = 0.3;

// Turns elements i .. i + n - 1 (n <= 16) of one head against those F later.
void TurnPart(uint16_t* low, uint16_t* high, F32x16 sine, F32x16 cosine,
              int64_t n) {
  const F32x16 a = LoadPart(low, n);
  const F32x16 b = LoadPart(high, n);
  StorePart(low, Fma(a, cosine, exact::Negate(b * sine)), n);
  StorePart(high, Fma(b, cosine, a * sine), n);
}

void TurnToken(int32_t position, const float* inv_freq, int64_t pairs,
               int64_t heads, int64_t head_size, uint16_t* x) {
  const F32x16 place = Broadcast(static_cast<float>(position));
  for (int64_t i = 0; i < pairs; i += kLanes) {
    const int64_t n = pairs - i;
    const F32x16 angle = place * LoadPart(inv_freq + i, n);
    F32x16 sine, cosine;
    exact::SinCos(angle, &sine, &cosine);
    for (int64_t h = 0; h < heads; ++h) {
      uint16_t* head = x + h * head_size;
      TurnPart(head + i, head + pairs + i, sine, cosine, n);
    }
  }
}

}  // namespace

void Rope(ThreadPool& pool, Tensor positions, Tensor inv_freq, Tensor x) {
  const int64_t pairs = inv_freq.dims[0];
  const int64_t heads = x.dims[1];
  const int32_t* position = positions.row<int32_t>(0);
  ForRanges(pool, x.dims[0], pairs * (kNsPerAngle + heads * kNsPerPair),
            [&](int64_t first, int64_t last) {
              for (int64_t t = first; t < last; ++t)
                TurnToken(position[t], inv_freq.row<float>(0), pairs, heads,
                          x.dims[2], x.row<uint16_t>(t));
            });
}

}  // namespace phalanx::PHALANX_ISA
