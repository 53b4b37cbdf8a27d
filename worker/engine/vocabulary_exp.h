#ifndef PHALANX_WORKER_ENGINE_VOCABULARY_EXP_H_
#define PHALANX_WORKER_ENGINE_VOCABULARY_EXP_H_

#include <span>

namespace phalanx {

// y[i] = exp((x[i] - largest) / temperature), within 2 ulp of that quotient's
// exponential: 1 where x[i] is `largest`, 0 where it would be below e^-87.
//   x: none above `largest`, none NaN; minus infinity gives 0
//   y: as long as x, and apart from it
//   temperature > 0; 1 leaves the differences as they are
// Any thread.
//
// Not kernels/exact_math.h's Exp: that is made of fused multiply-adds, which a
// program for any x86-64 has to call one by one (8 ms for a vocabulary of
// 248,320). This one rounds each product, so that the compiler may use whatever
// vectors the baseline has; the bits are the same with any.
void VocabularyExp(std::span<const float> x, float largest, float temperature,
                   std::span<float> y);

}  // namespace phalanx

#endif  // PHALANX_WORKER_ENGINE_VOCABULARY_EXP_H_
