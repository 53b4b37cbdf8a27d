#ifndef PHALANX_KERNELS_PACKED_WEIGHT_H_
#define PHALANX_KERNELS_PACKED_WEIGHT_H_

#include <cstdint>

#include "kernels/buffer.h"
#include "kernels/weight_format.h"

namespace phalanx {

// Of one layer: what a config may have and kernels make scratch for.
inline constexpr int64_t kMaxExperts = 8192;

inline constexpr int64_t kMaxWeightCols = 65536;
// Matrices of one weight: the slots of a whole model's experts.
inline constexpr int64_t kMaxWeightCount = int64_t{1} << 20;

// What the rows of a weight mean to the product that reads it.
enum class WeightLayout : uint8_t {
  kPlain,   // y = W x.
  kGateUp,  // Rows are gate (first half) | up; y = silu(gate x) * (up x). The
            // backend may interleave the halves as its epilogue likes.
};

// A stack of `count` matrices [rows, cols]. Linear weights are [out, in].
struct WeightShape {
  int64_t count = 1;
  int64_t rows = 0;
  int64_t cols = 0;  // Even.
  WeightLayout layout = WeightLayout::kPlain;
  WeightFormat format = WeightFormat::kBf16;
  // Of the columns, on this rank: what the product that reads it is given. Says
  // where groups of a quantised weight may lie; bf16 does not care.
  int slices = 1;

  // What the matrices come to in their format, scales included, without what a
  // backend pads.
  int64_t share_bytes() const {
    if (format == WeightFormat::kBf16) return count * rows * cols * 2;
    const int64_t codes = format == WeightFormat::kInt8 ? cols : (cols + 1) / 2;
    return count * rows * (codes + 2 * GroupsOf(cols, slices).count);
  }
};

// Laid out as one backend likes; made and filled by that backend, read only by
// its ops. Const after load; move only.
struct PackedWeight : WeightShape {
  Buffer storage;
  int64_t matrix_bytes = 0;  // Of one matrix in storage, padding included.
};

}  // namespace phalanx

#endif  // PHALANX_KERNELS_PACKED_WEIGHT_H_
