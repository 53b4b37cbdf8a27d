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
  Ints bits_at(int64_t i) const {
    Ints lanes;
    std::memcpy(&lanes, x + i, sizeof(lanes));
    return lanes;
  }
};

inline int32_t LargestLane(const Ints& x) {
  int32_t largest = 0;
  for (int lane = 0; lane < kWidth; ++lane)
    largest = std::max(largest, x[lane]);
  return largest;
}

// The largest magnitude, as the bits of a float.
inline int32_t LargestBits(const Group& group) {
  Ints most = {};
  for (int64_t i = 0; i < group.padded; i += kWidth) {
    const Ints bits = group.bits_at(i) & 0x7fffffff;
    most = bits > most ? bits : most;
  }
  return LargestLane(most);
}

// Where the first element of the largest magnitude is, of a group of bf16,
// whose floats have 16 low bits free to say where they are.
inline int64_t PeakOf(const Group& group) {
  constexpr int32_t kPlaces = 0xffff;
  Ints places;
  for (int lane = 0; lane < kWidth; ++lane) places[lane] = kPlaces - lane;
  Ints most = {};
  for (int64_t i = 0; i < group.padded; i += kWidth) {
    const Ints bits = (group.bits_at(i) & 0x7fffffff) | places;
    most = bits > most ? bits : most;
    places -= kWidth;
  }
  return kPlaces - (LargestLane(most) & kPlaces);
}

// x rounded to nearest even, |x| < 2^22.
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

// The scales that int4 chooses from, and how many of them share a pass over the
// group: as many as the registers hold.
inline constexpr int kCandidates = 8;
inline constexpr int kTogether = kWidth == 16 ? kCandidates : 1;
using Candidates = float __attribute__((vector_size(4 * kCandidates)));
using CandidateBits = int32_t __attribute__((vector_size(4 * kCandidates)));

// For kTogether candidates and each lane, its part of the sum over a group of
// the squared distances between x * inverse and the whole numbers of int4, in
// squares of the scale.
inline void SquaredErrors(const Group& group, const Candidates& inverses,
                          int first, float (*sums)[kLanes]) {
  // Of floats of one sign, order is that of their bits.
  constexpr auto kLow = std::bit_cast<int32_t>(kRounder - 8.0f);
  constexpr auto kHigh = std::bit_cast<int32_t>(kRounder + 7.0f);
  constexpr int kParts = kLanes / kWidth;
  Floats parts[kTogether][kParts] = {};
  for (int64_t i = 0; i < group.padded; i += kLanes) {
#pragma GCC unroll 8
    for (int c = 0; c < kTogether; ++c) {
#pragma GCC unroll 8
      for (int part = 0; part < kParts; ++part) {
        const Floats x = group.at(i + part * kWidth) * inverses[first + c];
        const Floats shifted = x + kRounder;
        Ints bits;
        std::memcpy(&bits, &shifted, sizeof(bits));
        bits = Clamped(bits, kLow, kHigh);
        Floats code;
        std::memcpy(&code, &bits, sizeof(code));
        const Floats error = x - (code - kRounder);
        parts[c][part] += error * error;
      }
    }
  }
  std::memcpy(sums, parts, sizeof(parts));
}

// The scale of int4 with the least squared error among a few that give the
// largest element, `peak`, a code of about -8: one end of a normal
// distribution's range may be cut off so that the rest lies finer.
inline uint16_t Int4Scale(const Group& group, float peak) {
  constexpr Candidates kDivisors = {-7.5f, -8.0f,  -8.5f,  -9.0f,
                                    -9.5f, -10.0f, -10.5f, -11.0f};
  // As F32ToBf16 rounds numbers, left in place as a float's bits.
  const Candidates wide = peak / kDivisors;
  CandidateBits bits;
  std::memcpy(&bits, &wide, sizeof(bits));
  bits = (bits + 0x7fff + (bits >> 16 & 1)) & ~0xffff;
  Candidates values;
  std::memcpy(&values, &bits, sizeof(values));
  const Candidates inverses = 1.0f / values;
  alignas(64) float sums[kCandidates][kLanes];
  for (int i = 0; i < kCandidates; i += kTogether)
    SquaredErrors(group, inverses, i, sums + i);
  // Lane after lane, as each candidate alone would be summed: eight chains.
  Candidates errors = {};
  for (int lane = 0; lane < kLanes; ++lane) {
    Candidates of_lane;
    for (int i = 0; i < kCandidates; ++i) of_lane[i] = sums[i][lane];
    errors += of_lane;
  }
  const Candidates ratios = values / values[0];
  errors *= ratios * ratios;
  // Errors are not negative, so their order is that of their bits; the first
  // of equal ones is taken.
  int32_t order[kCandidates];
  std::memcpy(order, &errors, sizeof(order));
  int64_t best = INT64_MAX;
  for (int i = 0; i < kCandidates; ++i)
    best = std::min(best, int64_t{order[i]} << 8 | i);
  return static_cast<uint16_t>(static_cast<uint32_t>(bits[best & 0xff]) >> 16);
}

// What QuantiseWeightRow does with one group.
template <WeightFormat kFormat>
inline void WeightGroup(const uint16_t* row, int64_t count, uint8_t* codes,
                        uint16_t* scale) {
  constexpr bool kInt4 = kFormat == WeightFormat::kInt4;
  constexpr int kZero = ZeroPoint(kFormat);
  Group group;
  group.Load(row, count);
  // The sign matters to int4 alone.
  const float peak =
      kInt4 ? group.x[PeakOf(group)] : std::bit_cast<float>(LargestBits(group));
  const auto bits = std::bit_cast<int32_t>(std::abs(peak));
  if (bits >= kInfinityBits || std::abs(peak) < kLeast) {
    *scale = bits >= kInfinityBits ? kBf16NaN : 0;
    std::memset(codes, kZero, static_cast<size_t>(count));
    return;
  }
  *scale = kInt4 ? Int4Scale(group, peak) : F32ToBf16(peak / 127.0f);
  const float inverse = 1.0f / Bf16ToF32(*scale);
  for (int64_t i = 0; i < count; i += kWidth) {
    const Ints whole = Whole(group.at(i) * inverse);
    StoreCodes(Clamped(whole, kInt4 ? -8 : -127, kInt4 ? 7 : 127) + kZero,
               count - i, codes + i);
  }
}

template <WeightFormat kFormat>
inline void WeightRow(const uint16_t* row, const WeightGroups& groups,
                      uint8_t* codes, uint16_t* scales) {
  int64_t at = 0;
  for (int64_t g = 0; g < groups.count; ++g) {
    const int64_t left = groups.slice_cols - at % groups.slice_cols;
    const int64_t count = std::min(groups.cols, left);
    WeightGroup<kFormat>(row + at, count, codes + at, scales + g);
    at += count;
  }
}

// `format` is not bf16.
inline void WeightRow(const uint16_t* row, const WeightGroups& groups,
                      WeightFormat format, uint8_t* codes, uint16_t* scales) {
  if (format == WeightFormat::kInt8)
    WeightRow<WeightFormat::kInt8>(row, groups, codes, scales);
  else
    WeightRow<WeightFormat::kInt4>(row, groups, codes, scales);
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
