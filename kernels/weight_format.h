#ifndef PHALANX_KERNELS_WEIGHT_FORMAT_H_
#define PHALANX_KERNELS_WEIGHT_FORMAT_H_

// What the elements of a weight are on the device. bf16 is the checkpoint's
// own. int8 and int4 are whole numbers, one scale to a group of neighbouring
// columns of a row: element = scale * (code - zero point); kernels/quantise.h
// makes them. A group never crosses a slice of design.md section 3, rule 1, so
// cutting a tensor between ranks neither needs nor changes its scales. Plain
// C++.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace phalanx {

enum class WeightFormat : uint8_t {
  kBf16,
  kInt8,  // Codes 1 .. 255, zero point 128.
  kInt4,  // Codes 0 .. 15, zero point 8.
};
inline constexpr int kWeightFormats = 3;

// As flags and metrics spell it; a numerics id adds the quantiser's version.
inline constexpr std::array<const char*, kWeightFormats> kWeightFormatNames = {
    "bf16", "int8", "int4"};

constexpr const char* WeightFormatName(WeightFormat format) {
  return kWeightFormatNames[static_cast<size_t>(format)];
}

// Nothing where none is called so.
constexpr std::optional<WeightFormat> WeightFormatOf(std::string_view name) {
  for (size_t i = 0; i < kWeightFormatNames.size(); ++i)
    if (name == kWeightFormatNames[i]) return static_cast<WeightFormat>(i);
  return std::nullopt;
}

inline constexpr int64_t kMaxGroupCols = 128;

// How the columns of a quantised matrix fall into groups.
struct WeightGroups {
  int64_t slice_cols = 0;
  int64_t cols = 0;       // Of a group; the last of a slice may be narrower.
  int64_t per_slice = 0;  // Groups.
  int64_t count = 0;      // Of all slices.
};

// `slices` divides `cols`. Columns of a slice of the whole tensor: 128, or a
// slice where that is narrower. `slices` is 1 where ranks do not share the
// contraction; else this rank's share of 8.
constexpr WeightGroups GroupsOf(int64_t cols, int slices) {
  WeightGroups groups;
  groups.slice_cols = cols / slices;
  groups.cols =
      groups.slice_cols < kMaxGroupCols ? groups.slice_cols : kMaxGroupCols;
  groups.per_slice = (groups.slice_cols + groups.cols - 1) / groups.cols;
  groups.count = groups.per_slice * slices;
  return groups;
}

}  // namespace phalanx

#endif  // PHALANX_KERNELS_WEIGHT_FORMAT_H_
