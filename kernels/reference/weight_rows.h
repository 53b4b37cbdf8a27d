#ifndef PHALANX_KERNELS_REFERENCE_WEIGHT_ROWS_H_
#define PHALANX_KERNELS_REFERENCE_WEIGHT_ROWS_H_

// How a matrix lies in the reference's memory: bf16 [rows][cols]; of int8 and
// int4 bf16 scales [rows][groups], then codes [rows][cols], a byte each.

#include <cstddef>
#include <cstdint>

#include "kernels/packed_weight.h"

namespace phalanx {

inline int64_t RowsScaleBytes(const WeightShape& shape) {
  return shape.rows * GroupsOf(shape.cols, shape.slices).count *
         static_cast<int64_t>(sizeof(uint16_t));
}

inline int64_t RowsMatrixBytes(const WeightShape& shape) {
  const int64_t elements = shape.rows * shape.cols;
  if (shape.format == WeightFormat::kBf16) return 2 * elements;
  return (RowsScaleBytes(shape) + elements + 1) / 2 * 2;  // Scales stay even.
}

inline std::byte* RowsMatrix(const PackedWeight& w, int64_t matrix) {
  return static_cast<std::byte*>(w.storage.data()) + matrix * w.matrix_bytes;
}

inline const uint16_t* Bf16Row(const PackedWeight& w, int64_t matrix,
                               int64_t row) {
  return reinterpret_cast<const uint16_t*>(RowsMatrix(w, matrix)) +
         row * w.cols;
}

inline uint16_t* ScalesRow(const PackedWeight& w, int64_t matrix, int64_t row) {
  return reinterpret_cast<uint16_t*>(RowsMatrix(w, matrix)) +
         row * GroupsOf(w.cols, w.slices).count;
}

inline uint8_t* CodesRow(const PackedWeight& w, int64_t matrix, int64_t row) {
  return reinterpret_cast<uint8_t*>(RowsMatrix(w, matrix)) +
         RowsScaleBytes(w) + row * w.cols;
}

}  // namespace phalanx

#endif  // PHALANX_KERNELS_REFERENCE_WEIGHT_ROWS_H_
