// Pieces of matrices that are codes already: cut and put together, computed
// never.

#include <algorithm>
#include <cstring>

#include "common/check.h"
#include "common/units.h"
#include "kernels/quantise.h"
#include "worker/checkpoint/matrix_pieces.h"
#include "worker/checkpoint/scratch_room.h"

namespace phalanx {
namespace {

// A range of rows and one of columns, for codes and scales alike.
struct Block {
  Range rows;
  Range cols;
};

std::vector<Block> BlocksOf(const MatrixPiece& piece) {
  std::vector<Block> blocks;
  for (const Range& range : piece.ranges) {
    if (piece.by_columns)
      blocks.push_back({{0, piece.rows}, range});
    else
      blocks.push_back({range, {0, piece.cols}});
  }
  return blocks;
}

// One row's codes of `cols`, a byte each.
void CopyCodes(const MatrixPiece& piece, int64_t row, Range cols,
               uint8_t* out) {
  const auto* data = reinterpret_cast<const uint8_t*>(piece.data.data());
  if (piece.format == WeightFormat::kInt8) {
    std::memcpy(out, data + row * piece.cols + cols.begin,
                static_cast<size_t>(cols.size()));
    return;
  }
  const uint8_t* pairs = data + row * piece.cols / 2 + cols.begin / 2;
  for (int64_t i = 0; i < cols.size() / 2; ++i) {
    out[2 * i] = pairs[i] & 0xf;
    out[2 * i + 1] = pairs[i] >> 4;
  }
}

// The groups that `cols` are made of: whole slices, or all columns.
Range GroupRange(const MatrixPiece& piece, Range cols) {
  const WeightGroups groups = GroupsOf(piece.cols, piece.slices);
  CHECK(cols.begin % groups.slice_cols == 0 &&
        cols.end % groups.slice_cols == 0);
  return {cols.begin / groups.slice_cols * groups.per_slice,
          cols.end / groups.slice_cols * groups.per_slice};
}

// Copies the piece below what is at `codes` and `scales`, rows of which are
// `cols` and `groups` apart.
void CopyCoded(const MatrixPiece& piece, int64_t cols, int64_t groups,
               uint8_t* codes, uint16_t* scales) {
  const int64_t all_groups = GroupsOf(piece.cols, piece.slices).count;
  int64_t first_col = 0;
  int64_t first_group = 0;
  for (const Block& block : BlocksOf(piece)) {
    const Range range = GroupRange(piece, block.cols);
    for (int64_t row = block.rows.begin; row < block.rows.end; ++row) {
      const int64_t at = row - block.rows.begin;
      CopyCodes(piece, row, block.cols, codes + at * cols + first_col);
      std::memcpy(scales + at * groups + first_group,
                  piece.scales.data() + (row * all_groups + range.begin) * 2,
                  static_cast<size_t>(range.size() * 2));
    }
    if (piece.by_columns) {
      first_col += block.cols.size();
      first_group += range.size();
    } else {
      codes += block.rows.size() * cols;
      scales += block.rows.size() * groups;
    }
  }
}

int64_t GroupsOfPiece(const MatrixPiece& piece) {
  int64_t groups = 0;
  if (!piece.by_columns) return GroupsOf(piece.cols, piece.slices).count;
  for (const Range& range : piece.ranges)
    groups += GroupRange(piece, range).size();
  return groups;
}

}  // namespace

AssembledCodes AssembleCodes(std::span<const MatrixPiece> pieces, int64_t rows,
                             int64_t cols, std::vector<uint16_t>* scratch) {
  const int64_t groups = GroupsOfPiece(pieces[0]);
  uint16_t* scales =
      RoomIn(scratch, rows * groups + CeilDivide(rows * cols, int64_t{2}));
  auto* codes = reinterpret_cast<uint8_t*>(scales + rows * groups);
  int64_t filled = 0;
  for (const MatrixPiece& piece : pieces) {
    CHECK(piece.format == pieces[0].format && piece.piece_cols() == cols &&
          GroupsOfPiece(piece) == groups);
    CHECK(filled + piece.piece_rows() <= rows);
    CopyCoded(piece, cols, groups, codes + filled * cols,
              scales + filled * groups);
    filled += piece.piece_rows();
  }
  // As QuantiseWeightRow has zeros.
  std::fill(codes + filled * cols, codes + rows * cols,
            static_cast<uint8_t>(ZeroPoint(pieces[0].format)));
  std::fill(scales + filled * groups, scales + rows * groups, uint16_t{0});
  return {codes, scales};
}

}  // namespace phalanx
