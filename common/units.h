#ifndef PHALANX_COMMON_UNITS_H_
#define PHALANX_COMMON_UNITS_H_

#include <cstdint>

namespace phalanx {

inline constexpr int64_t kKiB = int64_t{1} << 10;
inline constexpr int64_t kMiB = int64_t{1} << 20;
inline constexpr int64_t kGiB = int64_t{1} << 30;

// Both for n >= 0 and unit > 0.
constexpr int64_t CeilDivide(int64_t n, int64_t unit) {
  return (n + unit - 1) / unit;
}
constexpr int64_t RoundUp(int64_t n, int64_t unit) {
  return CeilDivide(n, unit) * unit;
}

}  // namespace phalanx

#endif  // PHALANX_COMMON_UNITS_H_
