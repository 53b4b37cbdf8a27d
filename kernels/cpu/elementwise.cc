// Rows copied from place to place, and sums and gates element by element.

#include <cstring>

#include "common/check.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vec.h"

namespace phalanx::PHALANX_ISA {
namespace {

// Rough costs for ForRanges.
constexpr double kNsPerElement = 0.1;
constexpr double kNsPerSigmoid = 0.5;
constexpr double kNsPerByte = 0.1;

// Bytes of a row that one thread copies at a time: rows may be few and long.
constexpr int64_t kCopyPiece = int64_t{64} << 10;

}  // namespace

void Embed(ThreadPool& pool, Tensor ids, Tensor table, int64_t first_id,
           Tensor y) {
  const int64_t width = y.row_elements();
  const size_t bytes = width * sizeof(uint16_t);
  const int32_t* id = ids.row<int32_t>(0);
  ForRanges(
      pool, y.dims[0], width * kNsPerElement, [&](int64_t first, int64_t last) {
        for (int64_t t = first; t < last; ++t) {
          const int64_t row = id[t] - first_id;
          if (row >= 0 && row < table.dims[0])
            std::memcpy(y.row<uint16_t>(t), table.row<uint16_t>(row), bytes);
          else
            std::memset(y.row<uint16_t>(t), 0, bytes);
        }
      });
}

void SelectOwner(ThreadPool& pool, Tensor ids, int64_t rows_per_rank,
                 Tensor gathered, Tensor y) {
  const int64_t tokens = y.dims[0];
  const int64_t width = y.row_elements();
  const int32_t* id = ids.row<int32_t>(0);
  ForRanges(pool, tokens, width * kNsPerElement,
            [&](int64_t first, int64_t last) {
              for (int64_t t = first; t < last; ++t) {
                const int64_t owner = id[t] / rows_per_rank;
                CHECK(owner >= 0 && owner < gathered.dims[0]);
                std::memcpy(y.row<uint16_t>(t),
                            gathered.row<uint16_t>(owner) + t * width,
                            width * sizeof(uint16_t));
              }
            });
}

void GatherRows(ThreadPool& pool, Tensor x, Tensor rows, Tensor y) {
  const int64_t width = y.row_elements();
  const int32_t* row = rows.row<int32_t>(0);
  ForRanges(pool, y.dims[0], width * kNsPerElement,
            [&](int64_t first, int64_t last) {
              for (int64_t r = first; r < last; ++r) {
                CHECK(row[r] >= 0 && row[r] < x.dims[0]);
                std::memcpy(y.row<uint16_t>(r), x.row<uint16_t>(row[r]),
                            width * sizeof(uint16_t));
              }
            });
}

void Copy(ThreadPool& pool, Tensor x, Tensor y) {
  if (x.data == y.data) return;
  const int64_t size = ElementBytes(x.dtype);
  const int64_t width = x.dims[1] * size;
  const int64_t pieces = (width + kCopyPiece - 1) / kCopyPiece;
  const auto copy = [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t row = i / pieces;
      const int64_t begin = i % pieces * kCopyPiece;
      const int64_t end =
          begin + kCopyPiece < width ? begin + kCopyPiece : width;
      std::memcpy(y.row<char>(0) + row * y.row_stride * size + begin,
                  x.row<char>(0) + row * x.row_stride * size + begin,
                  end - begin);
    }
  };
  const int64_t longest = width < kCopyPiece ? width : kCopyPiece;
  ForRanges(pool, x.dims[0] * pieces, longest * kNsPerByte, copy);
}

void Add(ThreadPool& pool, Tensor a, Tensor b, Tensor y) {
  const int64_t width = y.row_elements();
  ForRanges(pool, y.dims[0], width * kNsPerElement,
            [&](int64_t first, int64_t last) {
              for (int64_t t = first; t < last; ++t) {
                const uint16_t* left = a.row<uint16_t>(t);
                const uint16_t* right = b.row<uint16_t>(t);
                uint16_t* sum = y.row<uint16_t>(t);
                for (int64_t i = 0; i < width; i += kLanes) {
                  const int64_t n = width - i;
                  StorePart(sum + i,
                            LoadPart(left + i, n) + LoadPart(right + i, n), n);
                }
              }
            });
}

void Round(ThreadPool& pool, Tensor x, Tensor y) {
  const int64_t width = y.row_elements();
  ForRanges(pool, y.dims[0], width * kNsPerElement,
            [&](int64_t first, int64_t last) {
              for (int64_t t = first; t < last; ++t) {
                const float* value = x.row<float>(t);
                uint16_t* rounded = y.row<uint16_t>(t);
                for (int64_t i = 0; i < width; i += kLanes) {
                  const int64_t n = width - i;
                  StorePart(rounded + i, LoadPart(value + i, n), n);
                }
              }
            });
}

void MulSigmoid(ThreadPool& pool, Tensor x, Tensor gate, Tensor y) {
  const int64_t width = y.row_elements();
  ForRanges(pool, y.dims[0], width * kNsPerSigmoid,
            [&](int64_t first, int64_t last) {
              for (int64_t t = first; t < last; ++t) {
                const float* value = x.row<float>(t);
                const uint16_t* weight = gate.row<uint16_t>(t);
                uint16_t* product = y.row<uint16_t>(t);
                for (int64_t i = 0; i < width; i += kLanes) {
                  const int64_t n = width - i;
                  const F32x16 open = Sigmoid(LoadPart(weight + i, n));
                  StorePart(product + i, LoadPart(value + i, n) * open, n);
                }
              }
            });
}

}  // namespace phalanx::PHALANX_ISA
