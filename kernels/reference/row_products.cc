#include "kernels/reference/row_products.h"

#include <algorithm>
#include <cmath>

#include "kernels/bf16.h"
#include "kernels/quantise.h"
#include "kernels/reference/weight_rows.h"

namespace phalanx {

RowProducts::RowProducts(const float* x, const PackedWeight& w, int slices)
    : x_(x), w_(w), groups_(GroupsOf(w.cols, slices)) {
  if (w.format == WeightFormat::kBf16) return;
  codes_.resize(w.cols);
  for (int64_t at = 0; at < w.cols;) {
    const int64_t left = groups_.slice_cols - at % groups_.slice_cols;
    const int64_t count = std::min(groups_.cols, left);
    scales_.push_back(QuantiseActivations(x + at, count, codes_.data() + at));
    at += count;
  }
}

double RowProducts::Slice(int64_t matrix, int64_t row, int slice) const {
  if (w_.format == WeightFormat::kBf16)
    return Bf16Slice(Bf16Row(w_, matrix, row), slice);
  return QuantisedSlice(CodesRow(w_, matrix, row), ScalesRow(w_, matrix, row),
                        slice);
}

double RowProducts::Bf16Slice(const uint16_t* row, int slice) const {
  const int64_t first = slice * groups_.slice_cols;
  double sum = 0;
  for (int64_t k = first; k < first + groups_.slice_cols; ++k)
    sum += double{x_[k]} * Bf16ToF32(row[k]);
  return sum;
}

float RowProducts::QuantisedSlice(const uint8_t* codes, const uint16_t* scales,
                                  int slice) const {
  const int zero = ZeroPoint(w_.format);
  const int64_t end = (slice + 1) * groups_.slice_cols;
  int64_t k = slice * groups_.slice_cols;
  float sum = 0;
  for (int64_t g = slice * groups_.per_slice; k < end; ++g) {
    const int64_t group_end = std::min(k + groups_.cols, end);
    int32_t d = 0;
    for (; k < group_end; ++k) d += (codes[k] - zero) * codes_[k];
    sum = std::fma(static_cast<float>(d) * scales_[g], Bf16ToF32(scales[g]),
                   sum);
  }
  return sum;
}

}  // namespace phalanx
