#include "worker/engine/vocabulary_exp.h"

#include <bit>
#include <cstdint>

#include "common/check.h"

namespace phalanx {
namespace {

// e^x for x <= 0: 2^n e^r with n the integer nearest to x / ln 2, |r| <= 0.347,
// and the series of e^r to r^7, which leaves 6e-9 of the value.
inline float ExpOfNonPositive(float x) {
  constexpr float kLog2E = 0x1.715476p+0f;
  // 15 bits, so its product with n (7 bits) is exact, and so is x less that.
  constexpr float kLn2High = 0x1.62e4p-1f;
  constexpr float kLn2Low = 0x1.7f7d1cp-20f;
  // Adding it puts the nearest integer into the low bits of the sum.
  constexpr float kRounder = 0x1.8p23f;
  // Below, the power of two would leave the normal range.
  constexpr float kUnderflow = -87.0f;
  const float shifted = x * kLog2E + kRounder;
  const float n = shifted - kRounder;
  const float r = (x - n * kLn2High) - n * kLn2Low;
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * (r * r) + r + 1.0f;
  const uint32_t power = std::bit_cast<uint32_t>(shifted) << 23;
  const uint32_t bits = std::bit_cast<uint32_t>(p) + power;
  // A mask, since a branch would keep the compiler from using vectors.
  const uint32_t mask = 0u - static_cast<uint32_t>(x >= kUnderflow);
  return std::bit_cast<float>(bits & mask);
}

}  // namespace

void VocabularyExp(std::span<const float> x, float largest, float temperature,
                   std::span<float> y) {
  CHECK(x.size() == y.size() && temperature > 0);
  const float* __restrict from = x.data();
  float* __restrict to = y.data();
  for (size_t i = 0; i < x.size(); ++i)
    to[i] = ExpOfNonPositive((from[i] - largest) / temperature);
}

}  // namespace phalanx
