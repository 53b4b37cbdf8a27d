#include "worker/checkpoint/matrix_pieces.h"

#include <algorithm>
#include <cstring>

#include "common/check.h"
#include "common/units.h"
#include "kernels/bf16.h"
#include "worker/checkpoint/fp8.h"
#include "worker/checkpoint/scratch_room.h"

namespace phalanx {
namespace {

constexpr int64_t kBf16Bytes = 2;

int64_t TotalSize(const std::vector<Range>& ranges) {
  int64_t total = 0;
  for (const Range& range : ranges) total += range.size();
  return total;
}

// As CopyPiece, for codes and multipliers.
void DequantisePiece(const MatrixPiece& piece, uint16_t* out) {
  const Fp8Matrix matrix = {.codes = piece.data,
                            .scales = piece.scales,
                            .rows = piece.rows,
                            .cols = piece.cols};
  const int64_t stride = piece.piece_cols();
  for (const Range& range : piece.ranges) {
    if (piece.by_columns) {
      DequantiseFp8(matrix, {0, piece.rows}, range, out, stride);
      out += range.size();
    } else {
      DequantiseFp8(matrix, range, {0, piece.cols}, out, stride);
      out += range.size() * stride;
    }
  }
}

// Copies the piece to `out`, which has room for all of it.
void CopyPiece(const MatrixPiece& piece, uint16_t* out) {
  if (!piece.scales.empty()) return DequantisePiece(piece, out);
  const int64_t row_bytes = piece.cols * kBf16Bytes;
  if (!piece.by_columns) {
    for (const Range& range : piece.ranges) {
      std::memcpy(out, piece.data.data() + range.begin * row_bytes,
                  static_cast<size_t>(range.size() * row_bytes));
      out += range.size() * piece.cols;
    }
    return;
  }
  for (int64_t row = 0; row < piece.rows; ++row) {
    for (const Range& range : piece.ranges) {
      std::memcpy(
          out, piece.data.data() + row * row_bytes + range.begin * kBf16Bytes,
          static_cast<size_t>(range.size() * kBf16Bytes));
      out += range.size();
    }
  }
}

// Where the piece lies as it stands in the file, if it is in one run there and
// aligned for its type; else null.
const uint16_t* InPlace(const MatrixPiece& piece) {
  if (!piece.scales.empty() || piece.ranges.size() != 1) return nullptr;
  const Range& range = piece.ranges[0];
  if (piece.by_columns && range.size() != piece.cols) return nullptr;
  const std::byte* data = piece.data.data();
  if (!piece.by_columns) data += range.begin * piece.cols * kBf16Bytes;
  if (reinterpret_cast<uintptr_t>(data) % alignof(uint16_t) != 0)
    return nullptr;
  return reinterpret_cast<const uint16_t*>(data);
}

StoredType TypeOf(WeightFormat format, const StoredTensor* scales) {
  if (format != WeightFormat::kBf16) return StoredType::kU8;
  return scales == nullptr ? StoredType::kBf16 : StoredType::kF8E4M3;
}

// Bytes of matrix `index` of a stack, or of all of a tensor of rank 2.
std::span<const std::byte> MatrixOf(const StoredTensor& tensor, int64_t index) {
  if (tensor.shape.size() == 2) return tensor.data;
  const size_t bytes =
      tensor.data.size() / static_cast<size_t>(tensor.shape[0]);
  return tensor.data.subspan(static_cast<size_t>(index) * bytes, bytes);
}

}  // namespace

int64_t MatrixPiece::piece_rows() const {
  return by_columns ? rows : TotalSize(ranges);
}

int64_t MatrixPiece::piece_cols() const {
  return by_columns ? TotalSize(ranges) : cols;
}

MatrixPiece MakePiece(const StoredTensor& tensor, const StoredTensor* scales,
                      const TensorSlice& slice, int64_t index,
                      WeightFormat format, int slices) {
  const size_t rank = tensor.shape.size();
  CHECK(rank == 2 || rank == 3);
  CHECK(tensor.type == TypeOf(format, scales));
  MatrixPiece piece;
  piece.format = format;
  piece.slices = slices;
  piece.rows = tensor.shape[rank - 2];
  piece.data = MatrixOf(tensor, index);
  piece.cols = tensor.shape[rank - 1];
  if (format == WeightFormat::kInt4) piece.cols *= 2;
  if (scales != nullptr) {
    CHECK(scales->type == StoredType::kBf16);
    CHECK(rank == 2 || format != WeightFormat::kBf16);
    piece.scales = MatrixOf(*scales, index);
  }
  piece.by_columns = slice.dim == static_cast<int>(rank) - 1;
  // Ranges that touch are one run of the file.
  for (const Range& range : slice.ranges) {
    if (!piece.ranges.empty() && piece.ranges.back().end == range.begin)
      piece.ranges.back().end = range.end;
    else
      piece.ranges.push_back(range);
  }
  if (slice.dim == TensorSlice::kWhole) piece.ranges = {{0, piece.rows}};
  return piece;
}

std::vector<Range> GroupParts(Range rows, int64_t group, Range part) {
  CHECK(rows.begin % group == 0 && rows.size() % group == 0);
  CHECK(part.begin >= 0 && part.end <= group);
  std::vector<Range> ranges;
  for (int64_t first = rows.begin; first < rows.end; first += group)
    ranges.push_back({first + part.begin, first + part.end});
  return ranges;
}

const uint16_t* Assemble(std::span<const MatrixPiece> pieces, int64_t rows,
                         int64_t cols, std::vector<uint16_t>* scratch) {
  int64_t filled = 0;
  for (const MatrixPiece& piece : pieces) {
    CHECK(piece.piece_cols() == cols);
    filled += piece.piece_rows();
  }
  CHECK(filled <= rows);
  if (pieces.size() == 1 && filled == rows) {
    const uint16_t* in_place = InPlace(pieces[0]);
    if (in_place != nullptr) return in_place;
  }
  uint16_t* out = RoomIn(scratch, rows * cols);
  for (const MatrixPiece& piece : pieces) {
    CopyPiece(piece, out);
    out += piece.piece_rows() * cols;
  }
  std::fill(out, scratch->data() + rows * cols, uint16_t{0});
  return scratch->data();
}

std::vector<float> ReadF32(const StoredTensor& tensor,
                           const TensorSlice& slice) {
  int64_t row_elements = 1;
  for (size_t i = 1; i < tensor.shape.size(); ++i)
    row_elements *= tensor.shape[i];
  CHECK(slice.dim == TensorSlice::kWhole || slice.dim == 0);
  std::vector<Range> ranges = slice.ranges;
  if (slice.dim == TensorSlice::kWhole) ranges = {{0, tensor.shape[0]}};
  std::vector<float> values;
  values.reserve(static_cast<size_t>(TotalSize(ranges) * row_elements));
  for (const Range& range : ranges) {
    for (int64_t i = range.begin * row_elements; i < range.end * row_elements;
         ++i) {
      if (tensor.type == StoredType::kF32) {
        float value;
        std::memcpy(&value, tensor.data.data() + i * 4, sizeof(value));
        values.push_back(value);
      } else {
        CHECK(tensor.type == StoredType::kBf16);
        uint16_t bits;
        std::memcpy(&bits, tensor.data.data() + i * 2, sizeof(bits));
        values.push_back(Bf16ToF32(bits));
      }
    }
  }
  return values;
}

}  // namespace phalanx
