#ifndef PHALANX_KERNELS_TENSOR_H_
#define PHALANX_KERNELS_TENSOR_H_

// The view type that the contract between model and backend speaks in. Plain
// C++, so that CUDA sources may include it.

#include <array>
#include <cstddef>
#include <cstdint>

namespace phalanx {

enum class DType : uint8_t { kF32, kBf16, kI32 };

constexpr int64_t ElementBytes(DType type) {
  return type == DType::kBf16 ? 2 : 4;
}

// A view of row-major memory; never owns it, so copy it freely. Everything
// inside one row is contiguous; rows may be further apart than they are wide,
// which makes a block of columns a view too.
struct Tensor {
  void* data = nullptr;
  DType dtype = DType::kF32;
  int rank = 0;
  std::array<int64_t, 4> dims{};
  int64_t row_stride = 0;  // Elements from one row (first index) to the next.

  // Elements of one row: the product of all dimensions but the first.
  int64_t row_elements() const {
    int64_t n = 1;
    for (int i = 1; i < rank; ++i) n *= dims[i];
    return n;
  }
  int64_t elements() const { return dims[0] * row_elements(); }
  bool contiguous() const { return row_stride == row_elements(); }

  // For backends whose memory the host can read. row is the first index.
  template <typename T>
  T* row(int64_t index) const {
    return static_cast<T*>(data) + index * row_stride;
  }
};

// A contiguous view of `data`. The number of dimensions given is the rank.
template <typename... Dims>
Tensor MakeTensor(void* data, DType dtype, Dims... dims) {
  Tensor t;
  t.data = data;
  t.dtype = dtype;
  t.rank = sizeof...(dims);
  t.dims = {static_cast<int64_t>(dims)...};
  t.row_stride = t.row_elements();
  return t;
}

// Views of adjacent column blocks of a [T, n] tensor, left to right.
template <size_t N>
std::array<Tensor, N> SplitColumns(Tensor t, std::array<int64_t, N> widths) {
  std::array<Tensor, N> parts;
  int64_t offset = 0;
  for (size_t i = 0; i < N; ++i) {
    parts[i] = t;
    parts[i].data = static_cast<char*>(t.data) + offset * ElementBytes(t.dtype);
    parts[i].dims[1] = widths[i];
    offset += widths[i];
  }
  return parts;
}

// The same memory as [T, heads, width / heads].
inline Tensor Heads(Tensor t, int64_t heads) {
  t.rank = 3;
  t.dims = {t.dims[0], heads, t.dims[1] / heads, 0};
  return t;
}

// Rows [first, first + count) of t.
inline Tensor Rows(Tensor t, int64_t first, int64_t count) {
  t.data =
      static_cast<char*>(t.data) + first * t.row_stride * ElementBytes(t.dtype);
  t.dims[0] = count;
  return t;
}

}  // namespace phalanx

#endif  // PHALANX_KERNELS_TENSOR_H_
