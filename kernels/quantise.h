#ifndef PHALANX_KERNELS_QUANTISE_H_
#define PHALANX_KERNELS_QUANTISE_H_

// The whole numbers of int8 and int4 products, the same in every backend.
//
// A product of a quantised weight, for one row x and one output n: in each
// slice
//   f <- 0;  for each group g in order:
//     d <- sum over the group's columns of (code[n,k] - zero) * xcode[k] exact
//     f <- fma(float(d) * xscale[g], scale[n,g], f)                        f32
// and the slices are added by the tree of Ops::MatMulSliced; where there is one
// slice, f is the output. |d| < 2^24, so float(d) is exact. What the result is
// rounded to and how experts are weighted is as for bf16 (ops.h).
//
// Everything here is a function of one row of one group, so neither ranks, nor
// batch, nor cut into chunks can change a bit. Plain functions; any thread.

#include <cstdint>
#include <string>

#include "kernels/weight_format.h"

namespace phalanx {

// Rises when a code or a scale of some weight changes: who keeps what was
// quantised, or promises equal bits, says it beside the format.
inline constexpr int kQuantiserVersion = 1;

// "bf16", or "int8-1": a format, and the version of what quantised to it. Equal
// names of one model's weights promise equal codes and scales.
std::string VersionedFormatName(WeightFormat format);

// The zero point of a weight's codes.
constexpr int ZeroPoint(WeightFormat format) {
  return format == WeightFormat::kInt8 ? 128 : 8;
}

// One row of a weight: bf16 [cols] -> codes [cols], a byte each in int4 too,
// and bf16 scales [GroupsOf(cols, slices).count]. With m the largest magnitude,
// of an element p, and code = zero + round to nearest even(x / scale):
//   int8: scale = m / 127, codes cut to 1 .. 255
//   int4: the scale of the least squared error among p / -(7.5 + i / 2),
//         i = 0 .. 7 (so it may be negative), codes cut to 0 .. 15
// A group whose m is below 2^-100 has scale 0 and codes of the zero point. What
// is not finite gets scale NaN, so every output that it touches is NaN, as in
// bf16.
void QuantiseWeightRow(const uint16_t* row, int64_t cols, int slices,
                       WeightFormat format, uint8_t* codes, uint16_t* scales);

// What does so: the above, compiled for any processor, or a backend's own for
// the one at hand (kernels/cpu/cpu_quantiser.h), with the same bits.
using WeightRowQuantiser = void (*)(const uint16_t* row, int64_t cols,
                                    int slices, WeightFormat format,
                                    uint8_t* codes, uint16_t* scales);

// One group of activations, at most kMaxGroupCols: x [count] f32 -> codes
// [count] in -127 .. 127. Returns the scale: x ~ scale * code.
//   m = max |x|;  code = round to nearest even(x * (127 / m));  scale = m / 127
// m below 2^-100 counts as zero: scale 0, codes 0. Where an x is not finite the
// scale is NaN.
float QuantiseActivations(const float* x, int64_t count, int8_t* codes);

}  // namespace phalanx

#endif  // PHALANX_KERNELS_QUANTISE_H_
