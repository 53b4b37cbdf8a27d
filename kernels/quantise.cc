#include "kernels/quantise.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "common/check.h"
#include "kernels/bf16.h"

namespace phalanx {
namespace {

constexpr uint16_t kBf16NaN = 0x7fc0;
constexpr uint16_t kBf16Infinity = 0x7f80;
// Below this a group counts as zeros: its reciprocal would overflow.
constexpr float kLeast = 0x1p-100f;

int LargestCode(WeightFormat format) {
  return format == WeightFormat::kInt8 ? 127 : 7;
}

void QuantiseWeightGroup(const uint16_t* x, int64_t count, WeightFormat format,
                         uint8_t* codes, uint16_t* scale) {
  uint16_t most = 0;
  for (int64_t i = 0; i < count; ++i)
    most = std::max<uint16_t>(most, x[i] & 0x7fff);
  const int zero = ZeroPoint(format);
  for (int64_t i = 0; i < count; ++i) codes[i] = static_cast<uint8_t>(zero);
  *scale = 0;
  if (most >= kBf16Infinity) {
    *scale = kBf16NaN;
    return;
  }
  if (Bf16ToF32(most) < kLeast) return;
  const int largest = LargestCode(format);
  *scale = F32ToBf16(Bf16ToF32(most) / static_cast<float>(largest));
  const float inverse = 1.0f / Bf16ToF32(*scale);
  for (int64_t i = 0; i < count; ++i) {
    const int code =
        static_cast<int>(std::nearbyint(Bf16ToF32(x[i]) * inverse));
    codes[i] = static_cast<uint8_t>(std::clamp(code, -largest, largest) + zero);
  }
}

}  // namespace

void QuantiseWeightRow(const uint16_t* row, int64_t cols, int slices,
                       WeightFormat format, uint8_t* codes, uint16_t* scales) {
  CHECK(format != WeightFormat::kBf16);
  const WeightGroups groups = GroupsOf(cols, slices);
  for (int64_t s = 0; s < slices; ++s) {
    for (int64_t g = 0; g < groups.per_slice; ++g) {
      const int64_t first = s * groups.slice_cols + g * groups.cols;
      const int64_t last =
          std::min(first + groups.cols, (s + 1) * groups.slice_cols);
      QuantiseWeightGroup(row + first, last - first, format, codes + first,
                          scales + s * groups.per_slice + g);
    }
  }
}

float QuantiseActivations(const float* x, int64_t count, int8_t* codes) {
  uint32_t most = 0;
  for (int64_t i = 0; i < count; ++i)
    most = std::max(most, std::bit_cast<uint32_t>(x[i]) & 0x7fffffffu);
  for (int64_t i = 0; i < count; ++i) codes[i] = 0;
  const float largest = std::bit_cast<float>(most);
  if (!std::isfinite(largest)) return std::numeric_limits<float>::quiet_NaN();
  if (largest < kLeast) return 0.0f;
  const float inverse = 127.0f / largest;
  for (int64_t i = 0; i < count; ++i)
    codes[i] = static_cast<int8_t>(std::nearbyint(x[i] * inverse));
  return largest / 127.0f;
}

}  // namespace phalanx
