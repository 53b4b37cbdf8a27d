#ifndef PHALANX_KERNELS_QUANTISE_GROUP_H_
#define PHALANX_KERNELS_QUANTISE_GROUP_H_

// kernels/quantise.h, one group at a time, in vectors of the instruction set at
// hand: quantise.cc is compiled for any processor, kernels/cpu once for each
// set, and all must give the same bits. So every operation is exact or rounded
// once, sums have a fixed order, and no function of libm is called.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "kernels/bf16.h"
#include "kernels/quantise.h"

namespace phalanx::quantise {

// Sums have as many lanes on every processor; a vector holds kWidth of them.
inline constexpr int kLanes = 16;
#if defined(__AVX512F__)
inline constexpr int kWidth = 16;
#elif defined(__AVX2__)
inline constexpr int kWidth = 8;
#else
inline constexpr int kWidth = 4;
#endif

using Floats = float __attribute__((vector_size(4 * kWidth)));
using Ints = int32_t __attribute__((vector_size(4 * kWidth)));
using Words = uint16_t __attribute__((vector_size(2 * kWidth)));
using Bytes = int8_t __attribute__((vector_size(kWidth)));

inline constexpr uint16_t kBf16NaN = 0x7fc0;
inline constexpr int32_t kInfinityBits = 0x7f800000;
// Below this a group counts as zeros: its reciprocal would overflow.
inline constexpr float kLeast = 0x1p-100f;
// What is added to a float below 2^22 has no room for its fraction, which is
// rounded to nearest even; the low bits are the whole number.
inline constexpr float kRounder = 0x1.8p23f;

// A group as floats, zeros up to the next multiple of kLanes. What lies beyond
// count takes part in no maximum, sum or error.
struct Group {
  alignas(64) float x[kMaxGroupCols];
  int64_t count = 0;
  int64_t padded = 0;

  void Load(const float* from, int64_t n) {
    Pad(n);
    std::memcpy(x, from, static_cast<size_t>(n) * sizeof(float));
  }
  void Load(const uint16_t* from, int64_t n) {
    Pad(n);
    const int64_t whole = n / kWidth * kWidth;
    for (int64_t i = 0; i < whole; i += kWidth) {
      Words words;
      std::memcpy(&words, from + i, sizeof(words));
      const Ints wide = __builtin_convertvector(words, Ints) << 16;
      std::memcpy(x + i, &wide, sizeof(wide));
    }
    for (int64_t i = whole; i < n; ++i) x[i] = Bf16ToF32(from[i]);
  }
  void Pad(int64_t n) {
    count = n;
    padded = (n + kLanes - 1) / kLanes * kLanes;
    std::memset(x + padded - kLanes, 0, kLanes * sizeof(float));
  }
  Floats at(int64_t i) const {
    Floats lanes;
    std::memcpy(&lanes, x + i, sizeof(lanes));
    return lanes;
  }
};

// The largest magnitude, as the bits of a float.
inline int32_t LargestBits(const Group& group) {
  Ints most = {};
  for (int64_t i = 0; i < group.padded; i += kWidth) {
    Ints bits;
    std::memcpy(&bits, group.x + i, sizeof(bits));
    bits &= 0x7fffffff;
    most = bits > most ? bits : most;
  }
  int32_t largest = 0;
  for (int lane = 0; lane < kWidth; ++lane)
    largest = std::max(largest, most[lane]);
  return largest;
}

// x rounded to nearest even, |x| < 2^22.
inline Floats Rounded(const Floats& x) { return (x + kRounder) - kRounder; }
inline Ints Whole(const Floats& x) {
  const Floats shifted = x + kRounder;
  Ints bits;
  std::memcpy(&bits, &shifted, sizeof(bits));
  return bits - std::bit_cast<int32_t>(kRounder);
}

inline Ints Clamped(const Ints& x, int32_t least, int32_t most) {
  const Ints low = Ints{} + least;
  const Ints high = Ints{} + most;
  const Ints above = x < low ? low : x;
  return above > high ? high : above;
}

// Stores as many bytes as a group has left.
inline void StoreCodes(const Ints& codes, int64_t left, void* to) {
  const Bytes bytes = __builtin_convertvector(codes, Bytes);
  if (left >= kWidth)
    std::memcpy(to, &bytes, sizeof(bytes));
  else
    std::memcpy(to, &bytes, static_cast<size_t>(left));
}

// The sum over a group of the squared distances between x * inverse and the
// whole numbers of int4, in squares of the scale.
inline float SquaredError(const Group& group, float inverse) {
  const Floats low = Floats{} - 8.0f;
  const Floats high = Floats{} + 7.0f;
  Floats sums[kLanes / kWidth] = {};
  for (int64_t i = 0; i < group.padded; i += kLanes) {
    for (int part = 0; part < kLanes / kWidth; ++part) {
      const Floats x = group.at(i + part * kWidth) * inverse;
      Floats code = Rounded(x);
      code = code < low ? low : code;
      code = code > high ? high : code;
      const Floats error = x - code;
      sums[part] += error * error;
    }
  }
  float total = 0.0f;
  for (int lane = 0; lane < kLanes; ++lane)
    total += sums[lane / kWidth][lane % kWidth];
  return total;
}

// The scale of int4 with the least squared error among a few that give the
// largest element, `peak`, a code of about -8: one end of a normal
// distribution's range may be cut off so that the rest lies finer.
inline uint16_t Int4Scale(const Group& group, float peak) {
  constexpr int kCandidates = 8;
  uint16_t best = 0;
  float first = 0.0f;
  float least = 0.0f;
  for (int i = 0; i < kCandidates; ++i) {
    const uint16_t scale =
        F32ToBf16(peak / -(7.5f + 0.5f * static_cast<float>(i)));
    const float value = Bf16ToF32(scale);
    if (i == 0) first = value;
    const float ratio = value / first;
    const float error = SquaredError(group, 1.0f / value) * (ratio * ratio);
    if (i == 0 || error < least) {
      best = scale;
      least = error;
    }
  }
  return best;
}

// What QuantiseWeightRow does with one group.
inline void WeightGroup(const uint16_t* row, int64_t count, WeightFormat format,
                        uint8_t* codes, uint16_t* scale) {
  Group group;
  group.Load(row, count);
  const int zero = ZeroPoint(format);
  const int32_t bits = LargestBits(group);
  const auto largest = std::bit_cast<float>(bits);
  if (bits >= kInfinityBits || largest < kLeast) {
    *scale = bits >= kInfinityBits ? kBf16NaN : 0;
    std::memset(codes, zero, static_cast<size_t>(count));
    return;
  }
  int32_t low = -127;
  int32_t high = 127;
  if (format == WeightFormat::kInt8) {
    *scale = F32ToBf16(largest / 127.0f);
  } else {
    low = -8;
    high = 7;
    const float* peak = group.x;
    while (std::abs(*peak) != largest) ++peak;
    *scale = Int4Scale(group, *peak);
  }
  const float inverse = 1.0f / Bf16ToF32(*scale);
  for (int64_t i = 0; i < count; i += kWidth) {
    StoreCodes(Clamped(Whole(group.at(i) * inverse), low, high) + zero,
               count - i, codes + i);
  }
}

inline void WeightRow(const uint16_t* row, const WeightGroups& groups,
                      WeightFormat format, uint8_t* codes, uint16_t* scales) {
  int64_t at = 0;
  for (int64_t g = 0; g < groups.count; ++g) {
    const int64_t left = groups.slice_cols - at % groups.slice_cols;
    const int64_t count = std::min(groups.cols, left);
    WeightGroup(row + at, count, format, codes + at, scales + g);
    at += count;
  }
}

struct ActivationGroup {
  float scale = 0.0f;
  int32_t sum = 0;  // Of the codes.
};

// QuantiseActivations of a group that is loaded.
inline ActivationGroup Activations(const Group& group, int8_t* codes) {
  const int32_t bits = LargestBits(group);
  const auto largest = std::bit_cast<float>(bits);
  if (bits >= kInfinityBits || largest < kLeast) {
    std::memset(codes, 0, static_cast<size_t>(group.count));
    return {
        bits >= kInfinityBits ? std::numeric_limits<float>::quiet_NaN() : 0.0f,
        0};
  }
  const float inverse = 127.0f / largest;
  Ints sums = {};
  for (int64_t i = 0; i < group.count; i += kWidth) {
    const Ints whole = Whole(group.at(i) * inverse);
    sums += whole;
    StoreCodes(whole, group.count - i, codes + i);
  }
  ActivationGroup result{largest / 127.0f, 0};
  for (int lane = 0; lane < kWidth; ++lane) result.sum += sums[lane];
  return result;
}

}  // namespace phalanx::quantise

#endif  // PHALANX_KERNELS_QUANTISE_GROUP_H_
