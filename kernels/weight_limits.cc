#include "kernels/weight_limits.h"

#include "absl/strings/str_cat.h"

namespace phalanx {

absl::Status CheckWeightLimits(const WeightSize& size, int64_t max_cols,
                               int64_t free_bytes, absl::string_view what) {
  if (size.cols > max_cols)
    return absl::InvalidArgumentError(absl::StrCat(
        what, " has ", size.cols, " columns; must be at most ", max_cols));
  if (size.count > kMaxWeightCount)
    return absl::InvalidArgumentError(
        absl::StrCat(what, " has ", size.count, " matrices; must be at most ",
                     kMaxWeightCount));
  // In floating point first: a product of wrong sizes must not wrap around.
  const double bytes = 2.0 * static_cast<double>(size.count) *
                       static_cast<double>(size.rows) *
                       static_cast<double>(size.cols);
  if (bytes > static_cast<double>(kMaxBufferBytes))
    return absl::ResourceExhaustedError(
        absl::StrCat(what, " needs ", bytes, " bytes; free are ", free_bytes));
  return absl::OkStatus();
}

}  // namespace phalanx
