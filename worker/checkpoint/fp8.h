#ifndef PHALANX_WORKER_CHECKPOINT_FP8_H_
#define PHALANX_WORKER_CHECKPOINT_FP8_H_

// Block-FP8 weights (model_spec.md 3.3, 4.4): E4M3 codes, and beside them one
// bf16 multiplier for each block of kFp8Block x kFp8Block.

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/strings/string_view.h"
#include "worker/checkpoint/shard.h"

namespace phalanx {

inline constexpr int64_t kFp8Block = 128;

// What the name of a weight's multipliers adds to the weight's own name.
inline constexpr absl::string_view kScaleSuffix = "_scale_inv";

// E4M3 without infinities: bias 7, largest 448, 0x7f and 0xff are NaN.
float Fp8E4M3ToF32(uint8_t code);

// The blocks that `range` of a dimension touches, whole or in part.
Range Fp8Blocks(Range range);

// A stored matrix: codes [rows, cols], and the bf16 multipliers of its blocks,
// row-major and of any alignment. A view.
struct Fp8Matrix {
  std::span<const std::byte> codes;
  std::span<const std::byte> scales;
  int64_t rows = 0;
  int64_t cols = 0;
};

// Rows x columns of it into `out`, rows of which are `out_stride` elements
// apart, as bf16(code * multiplier) with one rounding. The bits do not depend
// on the calling thread's treatment of denormals.
void DequantiseFp8(const Fp8Matrix& matrix, Range rows, Range columns,
                   uint16_t* out, int64_t out_stride);

}  // namespace phalanx

#endif  // PHALANX_WORKER_CHECKPOINT_FP8_H_
