#include "worker/checkpoint/fp8.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
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

constexpr int kCodes = 256;
using Products = std::array<uint16_t, kCodes>;

// What of a bf16 is the exponent, and the least one for which no product with a
// code is denormal in f32: codes are multiples of 2^-9, 2^-117 * 2^-9 is the
// least normal number.
constexpr int kBf16MantissaBits = 7;
constexpr int kExponentMask = 255;
constexpr int kLeastSafeExponent = 127 - 117;

// The same product in integers, for multipliers so small that FTZ and DAZ would
// change the result: codes count 2^-9, multipliers 2^-133, products 2^-142.
uint16_t TinyProduct(float code, uint16_t scale) {
  if (std::isnan(code)) return F32ToBf16(code);
  const int exponent = (scale >> kBf16MantissaBits) & kExponentMask;
  const int64_t mantissa = scale & ((1 << kBf16MantissaBits) - 1);
  const int64_t multiplier =
      exponent == 0 ? mantissa
                    : (mantissa + (1 << kBf16MantissaBits)) << (exponent - 1);
  const int64_t product =
      static_cast<int64_t>(std::fabs(code) * 512.0f) * multiplier;
  const bool negative = std::signbit(code) != ((scale & 0x8000) != 0);
  uint16_t magnitude;
  if (product < 1 << 16) {  // Denormal: a multiple of 2^-133, ties to even.
    const int64_t kept = product >> 9;
    magnitude = static_cast<uint16_t>((product + 255 + (kept & 1)) >> 9);
  } else {
    const auto bits = std::bit_cast<uint32_t>(static_cast<float>(product));
    magnitude = F32ToBf16(std::bit_cast<float>(bits - (142u << 23)));
  }
  return static_cast<uint16_t>(magnitude | (negative ? 0x8000 : 0));
}

// bf16(code * multiplier) for every code. The product of four significant bits
// and eight is exact in f32.
void MakeProducts(uint16_t scale, Products* products) {
  const int exponent = (scale >> kBf16MantissaBits) & kExponentMask;
  if (exponent < kLeastSafeExponent) {
    for (size_t code = 0; code < kCodes; ++code)
      (*products)[code] = TinyProduct(kValues[code], scale);
    return;
  }
  const float multiplier = Bf16ToF32(scale);
  for (size_t code = 0; code < kCodes; ++code)
    (*products)[code] = F32ToBf16(kValues[code] * multiplier);
}

// Four at a time: one store instead of four.
void LookUp(const Products& products, const std::byte* codes, int64_t count,
            uint16_t* out) {
  const auto at = [&](int64_t i) {
    return products[std::to_integer<uint8_t>(codes[i])];
  };
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    const uint16_t four[] = {at(i), at(i + 1), at(i + 2), at(i + 3)};
    std::memcpy(out + i, four, sizeof(four));
  }
  for (; i < count; ++i) out[i] = at(i);
}

}  // namespace

float Fp8E4M3ToF32(uint8_t code) { return kValues[code]; }

Range Fp8Blocks(Range range) {
  return {range.begin / kFp8Block, CeilDivide(range.end, kFp8Block)};
}

void DequantiseFp8(const Fp8Matrix& matrix, Range rows, Range columns,
                   uint16_t* out, int64_t out_stride) {
  const int64_t scale_cols = CeilDivide(matrix.cols, kFp8Block);
  Products products;
  const auto convert_block = [&](int64_t block_row, int64_t block_col) {
    uint16_t scale;
    std::memcpy(&scale,
                matrix.scales.data() + (block_row * scale_cols + block_col) *
                                           static_cast<int64_t>(sizeof(scale)),
                sizeof(scale));
    MakeProducts(scale, &products);
    const int64_t first_col = std::max(columns.begin, block_col * kFp8Block);
    const int64_t last_col = std::min(columns.end, (block_col + 1) * kFp8Block);
    const int64_t first_row = std::max(rows.begin, block_row * kFp8Block);
    const int64_t last_row = std::min(rows.end, (block_row + 1) * kFp8Block);
    for (int64_t row = first_row; row < last_row; ++row)
      LookUp(products, matrix.codes.data() + row * matrix.cols + first_col,
             last_col - first_col,
             out + (row - rows.begin) * out_stride + first_col - columns.begin);
  };
  const Range block_rows = Fp8Blocks(rows);
  const Range block_cols = Fp8Blocks(columns);
  for (int64_t r = block_rows.begin; r < block_rows.end; ++r)
    for (int64_t c = block_cols.begin; c < block_cols.end; ++c)
      convert_block(r, c);
}

}  // namespace phalanx
