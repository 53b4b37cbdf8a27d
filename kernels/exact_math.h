#ifndef PHALANX_KERNELS_EXACT_MATH_H_
#define PHALANX_KERNELS_EXACT_MATH_H_

// Elementary functions whose bits are the same on every processor: no libm, no
// approximate instruction, every fused multiply-add written out (design.md
// section 3, rule 8). Results below 2^-126 are 0 by construction, and arguments
// below count as 0, so the bits do not depend on FTZ and DAZ.
//
// Each algorithm is written once, over a type V of one or more f32 lanes;
// kernels/cpu/vec.h instantiates it for 16. V brings
//   V::All(float), + - * /, Fma(a, b, c), Sqrt, Abs, Less(a, b), IsNan(a),
//   Select(mask, a, b), AsInt, AsFloat
// and an integer twin V::Int: All(int32_t), + - & ^, IsZero, ShiftLeft<n> and
// the arithmetic ShiftRight<n>.
//
// The functions are constexpr so that device code may call them too (nvcc's
// --expt-relaxed-constexpr); kernels/cuda/lane.cuh is the lane type there.
//
// Everything is inlined by force: a copy that the compiler put out of line in a
// file of one instruction set could be linked into a program for another.

#include <cstdint>
#include <cstring>

namespace phalanx {
namespace exact {

inline constexpr float kInfinity = __builtin_inff();
inline constexpr float kNan = __builtin_nanf("");
inline constexpr float kSmallestNormal = 0x1p-126f;

// Adding it puts the nearest integer of |x| < 2^22 into the low bits.
inline constexpr float kRounder = 0x1.8p23f;
inline constexpr int32_t kRounderBits = 0x4b400000;

// Sin and Cos serve arguments up to this; beyond they return NaN.
inline constexpr float kMaxAngle = 0x1p22f;

// 0 for what FTZ might or might not have flushed.
template <typename V>
[[gnu::always_inline]] constexpr V FlushTiny(V x) {
  return Select(Less(Abs(x), V::All(kSmallestNormal)), V::All(0.0f), x);
}

// e^x = 2^n e^r with n the integer nearest to x / ln 2 and |r| <= 0.347. The
// series to r^7 leaves 6e-9 of the value; the whole errs by less than 1.1 ulp.
template <typename V>
[[gnu::always_inline]] constexpr V Exp(V x) {
  constexpr float kLog2E = 0x1.715476p+0f;
  constexpr float kLn2High = 0x1.62e43p-1f;  // n * kLn2High needs no rounding
  constexpr float kLn2Low = -0x1.05c61p-29f;
  constexpr float kOverflow = 0x1.62e42ep+6f;    // e^x is finite up to here
  constexpr float kUnderflow = -0x1.5d589ep+6f;  // and normal down to here
  const V shifted = Fma(x, V::All(kLog2E), V::All(kRounder));
  const V n = shifted - V::All(kRounder);
  V r = Fma(n, V::All(-kLn2High), x);
  r = Fma(n, V::All(-kLn2Low), r);
  V p = V::All(1.0f / 5040);
  p = Fma(p, r, V::All(1.0f / 720));
  p = Fma(p, r, V::All(1.0f / 120));
  p = Fma(p, r, V::All(1.0f / 24));
  p = Fma(p, r, V::All(1.0f / 6));
  p = Fma(p, r, V::All(0.5f));
  p = Fma(p, r, V::All(1.0f));
  p = Fma(p, r, V::All(1.0f));
  // p is within 0.7 .. 1.42, and no result that is kept leaves the normal
  // range: the power of two may be added to the exponent.
  const auto scaled =
      AsInt(p) + ShiftLeft<23>(AsInt(shifted) - V::Int::All(kRounderBits));
  V y = AsFloat(scaled);
  y = Select(Less(V::All(kOverflow), x), V::All(kInfinity), y);
  y = Select(Less(x, V::All(kUnderflow)), V::All(0.0f), y);
  return Select(IsNan(x), V::All(kNan), y);
}

// Natural logarithm; -inf at 0, NaN below. With x = 2^e (1 + f), 1 + f within
// sqrt(1/2) .. sqrt(2), and s = f / (2 + f): log(1 + f) = 2 atanh(s), whose
// series to s^9 leaves 2e-9 of the value. The form f - (f^2/2 - ...) keeps the
// leading term unrounded.
template <typename V>
[[gnu::always_inline]] constexpr V Log(V x) {
  constexpr float kLn2High = 0x1.62e43p-1f;
  constexpr float kLn2Low = -0x1.05c61p-29f;
  constexpr int32_t kSqrtHalfBits = 0x3f3504f3;
  const auto bits = AsInt(x);
  const auto exponent = ShiftRight<23>(bits - V::Int::All(kSqrtHalfBits));
  const V f = AsFloat(bits - ShiftLeft<23>(exponent)) - V::All(1.0f);
  const V e = AsFloat(exponent + V::Int::All(kRounderBits)) - V::All(kRounder);
  const V s = f / (V::All(2.0f) + f);
  const V z = s * s;
  V series = V::All(2.0f / 9);
  series = Fma(series, z, V::All(2.0f / 7));
  series = Fma(series, z, V::All(2.0f / 5));
  series = Fma(series, z, V::All(2.0f / 3));
  series = series * z;
  const V half = V::All(0.5f) * f * f;
  const V low = Fma(s, half + series, e * V::All(kLn2Low));
  V y = Fma(e, V::All(kLn2High), f - (half - low));
  y = Select(Less(x, V::All(kSmallestNormal)), V::All(-kInfinity), y);
  y = Select(Less(V::All(0x1.fffffep127f), x), V::All(kInfinity), y);
  y = Select(Less(x, V::All(0.0f)), V::All(kNan), y);
  return Select(IsNan(x), V::All(kNan), y);
}

// log(1 + x): the rounding error c of y = 1 + x comes back as c / y.
template <typename V>
[[gnu::always_inline]] constexpr V Log1p(V x) {
  constexpr float kErrorIsNothing = 0x1p25f;
  const V one = V::All(1.0f);
  const V y = one + x;
  const V x_part = y - one;
  const V error = (one - (y - x_part)) + (x - x_part);
  V correction = error / y;
  correction = Select(Less(V::All(0.0f), Abs(error)), correction, V::All(0.0f));
  correction =
      Select(Less(V::All(kErrorIsNothing), x), V::All(0.0f), correction);
  return FlushTiny(Log(y) + correction);
}

// 1 / sqrt(x), from the two correctly rounded operations.
template <typename V>
[[gnu::always_inline]] constexpr V Rsqrt(V x) {
  return V::All(1.0f) / Sqrt(x);
}

template <typename V>
[[gnu::always_inline]] constexpr V Negate(V x) {
  return AsFloat(AsInt(x) ^ V::Int::All(INT32_MIN));
}

template <typename V>
[[gnu::always_inline]] constexpr V Sigmoid(V x) {
  return FlushTiny(V::All(1.0f) / (V::All(1.0f) + Exp(Negate(x))));
}

// x * sigmoid(x)
template <typename V>
[[gnu::always_inline]] constexpr V Silu(V x) {
  return FlushTiny(x / (V::All(1.0f) + Exp(Negate(x))));
}

// log(1 + e^x); x itself above 20, where they differ by less than half an ulp.
template <typename V>
[[gnu::always_inline]] constexpr V Softplus(V x) {
  return Select(Less(V::All(20.0f), x), x, Log1p(Exp(x)));
}

// Sine and cosine of x radians, |x| <= kMaxAngle, to 2 ulp: x = n pi/2 + r with
// pi/2 in three parts. The first step is exact: x and n times the first part
// are multiples of 2^-23, and so is r, which is below 1. The second and third
// leave an error relative to r, however close x is to a multiple of pi/2.
template <typename V>
[[gnu::always_inline]] constexpr void SinCos(V x, V* sine, V* cosine) {
  constexpr float kTwoOverPi = 0x1.45f306p-1f;
  constexpr float kPart1 = 0x1.921fb6p+0f;
  constexpr float kPart2 = -0x1.777a5cp-25f;
  constexpr float kPart3 = -0x1.ee59dap-50f;
  const V shifted = Fma(x, V::All(kTwoOverPi), V::All(kRounder));
  const V n = shifted - V::All(kRounder);
  V r = Fma(n, V::All(-kPart1), x);
  r = Fma(n, V::All(-kPart2), r);
  r = Fma(n, V::All(-kPart3), r);
  const V z = r * r;
  V s = V::All(1.0f / 362880);
  s = Fma(s, z, V::All(-1.0f / 5040));
  s = Fma(s, z, V::All(1.0f / 120));
  s = Fma(s, z, V::All(-1.0f / 6));
  s = Fma(s * z, r, r);
  V c = V::All(-1.0f / 3628800);
  c = Fma(c, z, V::All(1.0f / 40320));
  c = Fma(c, z, V::All(-1.0f / 720));
  c = Fma(c, z, V::All(1.0f / 24));
  c = Fma(c, z, V::All(-0.5f));
  c = Fma(c, z, V::All(1.0f));
  // The quarter turn n & 3 swaps the two and sets their signs.
  const auto quarter = AsInt(shifted) - V::Int::All(kRounderBits);
  const auto two = V::Int::All(2);
  const auto even = IsZero(quarter & V::Int::All(1));
  const auto sine_sign = ShiftLeft<30>(quarter & two);
  const auto cosine_sign = ShiftLeft<30>((quarter + V::Int::All(1)) & two);
  const V sine_value = AsFloat(AsInt(Select(even, s, c)) ^ sine_sign);
  const V cosine_value = AsFloat(AsInt(Select(even, c, s)) ^ cosine_sign);
  const auto served = Less(Abs(x), V::All(kMaxAngle));
  *sine = Select(served, FlushTiny(sine_value), V::All(kNan));
  *cosine = Select(served, FlushTiny(cosine_value), V::All(kNan));
}

// One lane of each: V and V::Int for scalar code.
struct I32x1 {
  uint32_t value;
  [[gnu::always_inline]] static I32x1 All(int32_t v) {
    return {static_cast<uint32_t>(v)};
  }
};
[[gnu::always_inline]] inline I32x1 operator+(I32x1 a, I32x1 b) {
  return {a.value + b.value};
}
[[gnu::always_inline]] inline I32x1 operator-(I32x1 a, I32x1 b) {
  return {a.value - b.value};
}
[[gnu::always_inline]] inline I32x1 operator&(I32x1 a, I32x1 b) {
  return {a.value & b.value};
}
[[gnu::always_inline]] inline I32x1 operator^(I32x1 a, I32x1 b) {
  return {a.value ^ b.value};
}
template <int n>
[[gnu::always_inline]] inline I32x1 ShiftLeft(I32x1 a) {
  return {a.value << n};
}
template <int n>
[[gnu::always_inline]] inline I32x1 ShiftRight(I32x1 a) {
  return {static_cast<uint32_t>(static_cast<int32_t>(a.value) >> n)};
}
[[gnu::always_inline]] inline bool IsZero(I32x1 a) { return a.value == 0; }

struct F32x1 {
  using Int = I32x1;
  float value;
  [[gnu::always_inline]] static F32x1 All(float v) { return {v}; }
};
[[gnu::always_inline]] inline F32x1 operator+(F32x1 a, F32x1 b) {
  return {a.value + b.value};
}
[[gnu::always_inline]] inline F32x1 operator-(F32x1 a, F32x1 b) {
  return {a.value - b.value};
}
[[gnu::always_inline]] inline F32x1 operator*(F32x1 a, F32x1 b) {
  return {a.value * b.value};
}
[[gnu::always_inline]] inline F32x1 operator/(F32x1 a, F32x1 b) {
  return {a.value / b.value};
}
[[gnu::always_inline]] inline F32x1 Fma(F32x1 a, F32x1 b, F32x1 c) {
  return {__builtin_fmaf(a.value, b.value, c.value)};
}
[[gnu::always_inline]] inline F32x1 Sqrt(F32x1 a) {
  return {__builtin_sqrtf(a.value)};
}
[[gnu::always_inline]] inline F32x1 Abs(F32x1 a) {
  return {__builtin_fabsf(a.value)};
}
[[gnu::always_inline]] inline bool Less(F32x1 a, F32x1 b) {
  return a.value < b.value;
}
[[gnu::always_inline]] inline bool IsNan(F32x1 a) { return a.value != a.value; }
[[gnu::always_inline]] inline F32x1 Select(bool mask, F32x1 a, F32x1 b) {
  return mask ? a : b;
}
[[gnu::always_inline]] inline I32x1 AsInt(F32x1 a) {
  I32x1 bits;
  std::memcpy(&bits, &a, sizeof(bits));
  return bits;
}
[[gnu::always_inline]] inline F32x1 AsFloat(I32x1 a) {
  F32x1 value;
  std::memcpy(&value, &a, sizeof(value));
  return value;
}

}  // namespace exact

// e^x within 1.1 ulp; 0 below 2^-126, inf above the largest f32.
[[gnu::always_inline]] inline float Exp(float x) {
  return exact::Exp(exact::F32x1{x}).value;
}

// Natural logarithm within 2 ulp; -inf at 0, NaN below.
[[gnu::always_inline]] inline float Log(float x) {
  return exact::Log(exact::F32x1{x}).value;
}

// log(1 + x) within 2 ulp; x >= -1, else NaN.
[[gnu::always_inline]] inline float Log1p(float x) {
  return exact::Log1p(exact::F32x1{x}).value;
}

// 1 / sqrt(x): two correctly rounded operations.
[[gnu::always_inline]] inline float Rsqrt(float x) {
  return exact::Rsqrt(exact::F32x1{x}).value;
}

// Sine and cosine of x radians within 2 ulp, |x| < 2^22; beyond, NaN.
[[gnu::always_inline]] inline float Sin(float x) {
  exact::F32x1 sine, cosine;
  exact::SinCos(exact::F32x1{x}, &sine, &cosine);
  return sine.value;
}
[[gnu::always_inline]] inline float Cos(float x) {
  exact::F32x1 sine, cosine;
  exact::SinCos(exact::F32x1{x}, &sine, &cosine);
  return cosine.value;
}

// 1 / (1 + e^-x) within 3 ulp; 0 below 2^-126.
[[gnu::always_inline]] inline float Sigmoid(float x) {
  return exact::Sigmoid(exact::F32x1{x}).value;
}

// x * sigmoid(x) within 3 ulp.
[[gnu::always_inline]] inline float Silu(float x) {
  return exact::Silu(exact::F32x1{x}).value;
}

// log(1 + e^x); x above 20.
[[gnu::always_inline]] inline float Softplus(float x) {
  return exact::Softplus(exact::F32x1{x}).value;
}

// Natural logarithm in f64 within 2 ulp, for sums of exponentials; -inf at 0
// and for subnormals, NaN below. The algorithm of exact::Log, longer series.
[[gnu::always_inline]] inline double LogExact(double x) {
  constexpr double kLn2High = 0x1.62e42fefap-1;  // 34 bits: e * it is exact
  constexpr double kLn2Low = 0x1.cf79abc9e3b3ap-40;
  constexpr uint64_t kSqrtHalfBits = 0x3fe6a09e667f3bcd;
  constexpr int kTerms = 12;  // (0.0295^12) / 25: below 2^-60 of the value
  if (x != x || x < 0) return __builtin_nan("");
  if (x < 0x1p-1022) return -__builtin_inf();
  if (x > 0x1.fffffffffffffp1023) return __builtin_inf();
  uint64_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  const int64_t exponent = static_cast<int64_t>(bits - kSqrtHalfBits) >> 52;
  bits -= static_cast<uint64_t>(exponent) << 52;
  double f;
  std::memcpy(&f, &bits, sizeof(f));
  f -= 1.0;
  const double e = static_cast<double>(exponent);
  const double s = f / (2.0 + f);
  const double z = s * s;
  double series = 0.0;
  for (int k = kTerms; k >= 1; --k)
    series = __builtin_fma(series, z, 2.0 / (2 * k + 1));
  series *= z;
  const double half = 0.5 * f * f;
  const double low = __builtin_fma(s, half + series, e * kLn2Low);
  return __builtin_fma(e, kLn2High, f - (half - low));
}

}  // namespace phalanx

#endif  // PHALANX_KERNELS_EXACT_MATH_H_
