#include "kernels/weight_limits.h"

#include "absl/strings/str_cat.h"

namespace phalanx {

absl::Status CheckWeightLimits(const WeightShape& shape, int64_t max_cols,
                               int64_t free_bytes, absl::string_view what) {
  if (shape.cols > max_cols)
    return absl::InvalidArgumentError(absl::StrCat(
        what, " has ", shape.cols, " columns; must be at most ", max_cols));
  if (shape.count > kMaxWeightCount)
    return absl::InvalidArgumentError(
        absl::StrCat(what, " has ", shape.count, " matrices; must be at most ",
                     kMaxWeightCount));
  // In floating point first: a product of wrong sizes must not wrap around.
  // As bf16: other formats need less.
  const double bytes = 2.0 * static_cast<double>(shape.count) *
                       static_cast<double>(shape.rows) *
                       static_cast<double>(shape.cols);
  if (bytes > static_cast<double>(kMaxBufferBytes))
    return absl::ResourceExhaustedError(
        absl::StrCat(what, " needs ", bytes, " bytes; free are ", free_bytes));
  return absl::OkStatus();
}

absl::Status CheckBf16Only(const WeightShape& shape, absl::string_view what) {
  if (shape.format == WeightFormat::kBf16) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat(what, " asks for ", WeightFormatName(shape.format),
                   " weights; this device has bf16 products only"));
}

}  // namespace phalanx
