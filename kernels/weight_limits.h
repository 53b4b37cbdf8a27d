#ifndef PHALANX_KERNELS_WEIGHT_LIMITS_H_
#define PHALANX_KERNELS_WEIGHT_LIMITS_H_

// How large a weight may be: the same for every served backend, and for the
// configs that ask for it. What the world can cause is refused here, before
// anything is allocated; what is left over is a bug (op_checks.h).

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "kernels/packed_weight.h"

namespace phalanx {

// Of one allocation; sums of a few do not overflow.
inline constexpr int64_t kMaxBufferBytes = int64_t{1} << 46;

// INVALID_ARGUMENT for too many columns (at most `max_cols`) or matrices,
// RESOURCE_EXHAUSTED for more bytes than any device has; all name
// `what`, the value and the limit.
absl::Status CheckWeightLimits(const WeightShape& shape, int64_t max_cols,
                               int64_t free_bytes, absl::string_view what);

// UNIMPLEMENTED, naming `what` and the format, for a backend whose products
// read bf16 alone.
absl::Status CheckBf16Only(const WeightShape& shape, absl::string_view what);

}  // namespace phalanx

#endif  // PHALANX_KERNELS_WEIGHT_LIMITS_H_
