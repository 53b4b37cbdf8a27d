#ifndef PHALANX_KERNELS_PACKED_WEIGHT_H_
#define PHALANX_KERNELS_PACKED_WEIGHT_H_

#include <cstdint>

#include "kernels/buffer.h"

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

// A stack of `count` matrices [rows, cols] laid out as one backend likes; made
// and filled by that backend, read only by its ops. Linear weights are [out,
// in]. Const after load; move only.
struct PackedWeight {
  int64_t count = 0;
  int64_t rows = 0;
  int64_t cols = 0;
  WeightLayout layout = WeightLayout::kPlain;
  Buffer storage;
  int64_t matrix_bytes = 0;  // Of one matrix in storage, padding included.

  // Bytes of the checkpoint's bf16 that this holds, without padding.
  int64_t share_bytes() const { return count * rows * cols * 2; }
};

}  // namespace phalanx

#endif  // PHALANX_KERNELS_PACKED_WEIGHT_H_
