#include "worker/checkpoint/fp8.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "common/units.h"
#include "kernels/bf16.h"

namespace phalanx {
namespace {

constexpr float PowerOfTwo(int exponent) {
  float value = 1;
  for (; exponent > 0; --exponent) value *= 2;
  for (; exponent < 0; ++exponent) value /= 2;
  return value;
}

constexpr float Decode(int code) {
  constexpr int kBias = 7;
  const int exponent = (code >> 3) & 15;
  const int mantissa = code & 7;
  if (exponent == 15 && mantissa == 7)
    return std::numeric_limits<float>::quiet_NaN();
  // Without an exponent the leading one is missing: multiples of 2^-9.
  const float eighths =
      static_cast<float>(exponent == 0 ? mantissa : 8 + mantissa);
  const float value = eighths * PowerOfTwo(std::max(exponent, 1) - kBias - 3);
  return (code & 0x80) != 0 ? -value : value;
}

constexpr std::array<float, 256> kValues = [] {
  std::array<float, 256> values{};
  for (int code = 0; code < 256; ++code)
    values[static_cast<size_t>(code)] = Decode(code);
  return values;
}();

}  // namespace

float Fp8E4M3ToF32(uint8_t code) { return kValues[code]; }

Range Fp8Blocks(Range range) {
  return {range.begin / kFp8Block, CeilDivide(range.end, kFp8Block)};
}

void DequantiseFp8(std::span<const std::byte> codes, const std::byte* scales,
                   Range range, uint16_t* out) {
  const Range blocks = Fp8Blocks(range);
  for (int64_t block = blocks.begin; block < blocks.end; ++block) {
    uint16_t bits;
    std::memcpy(&bits, scales + block * static_cast<int64_t>(sizeof(bits)),
                sizeof(bits));
    // The product of four significant bits and eight is exact in f32.
    const float scale = Bf16ToF32(bits);
    const int64_t begin = std::max(range.begin, block * kFp8Block);
    const int64_t end = std::min(range.end, (block + 1) * kFp8Block);
    for (int64_t i = begin; i < end; ++i)
      *out++ = F32ToBf16(
          kValues[std::to_integer<uint8_t>(codes[static_cast<size_t>(i)])] *
          scale);
  }
}

}  // namespace phalanx
