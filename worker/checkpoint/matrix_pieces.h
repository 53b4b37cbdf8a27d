#ifndef PHALANX_WORKER_CHECKPOINT_MATRIX_PIECES_H_
#define PHALANX_WORKER_CHECKPOINT_MATRIX_PIECES_H_

// Putting a matrix together on the host from pieces of stored tensors.

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/weight_format.h"
#include "worker/checkpoint/safetensors.h"
#include "worker/checkpoint/shard.h"
#include "worker/checkpoint/tensor_rules.h"

namespace phalanx {

// Rows or columns of one matrix of a stored tensor: bf16, block-FP8, or codes
// of groups. A view of the tensor, and of what is beside it.
struct MatrixPiece {
  std::span<const std::byte> data;    // The whole matrix, row-major.
  std::span<const std::byte> scales;  // Of all of it; empty for bf16.
  int64_t rows = 0;
  int64_t cols = 0;
  // int8, int4: `data` are codes (CodedShapeOf), with scales of GroupsOf(cols,
  // slices). Columns are cut between slices.
  WeightFormat format = WeightFormat::kBf16;
  int slices = 1;
  bool by_columns =
      false;  // What `ranges` count: columns of all rows, or rows.
  std::vector<Range> ranges;

  // Of the piece, not of the matrix; bytes are those of bf16.
  int64_t piece_rows() const;
  int64_t piece_cols() const;
  int64_t piece_bytes() const { return piece_rows() * piece_cols() * 2; }
};

// The piece of `tensor` that `slice` cuts. A tensor of rank 3 is a stack of
// matrices (fused experts), `index` one of them. `scales` are the multipliers
// of an FP8 tensor of rank 2, or those of the groups of one whose codes are
// `format`; null for a bf16 one.
MatrixPiece MakePiece(const StoredTensor& tensor, const StoredTensor* scales,
                      const TensorSlice& slice, int64_t index = 0,
                      WeightFormat format = WeightFormat::kBf16,
                      int slices = 1);

// From rows that are stored group by group, `group` rows each: rows `part` of
// every group in `rows`. So the queries of [query | gate] per head, or the
// values of [q | k | v | z] per key head.
std::vector<Range> GroupParts(Range rows, int64_t group, Range part);

// The pieces below each other as rows [rows, cols]; rows that they do not fill
// are zero. Points into the stored tensor where that already is the answer,
// else into `scratch`, which it overwrites; FP8 becomes bf16 on the way. All
// pieces have `cols` columns.
const uint16_t* Assemble(std::span<const MatrixPiece> pieces, int64_t rows,
                         int64_t cols, std::vector<uint16_t>* scratch);

// The same of codes: what Backend::PackCodes wants. `scratch` as above.
struct AssembledCodes {
  const uint8_t* codes = nullptr;    // [rows, cols], a byte each.
  const uint16_t* scales = nullptr;  // [rows, groups of these columns].
};
AssembledCodes AssembleCodes(std::span<const MatrixPiece> pieces, int64_t rows,
                             int64_t cols, std::vector<uint16_t>* scratch);

// A bf16 or f32 tensor's slice along its first dimension (or all of it), in
// f32.
std::vector<float> ReadF32(const StoredTensor& tensor,
                           const TensorSlice& slice);

}  // namespace phalanx

#endif  // PHALANX_WORKER_CHECKPOINT_MATRIX_PIECES_H_
