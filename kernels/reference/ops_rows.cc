// Rows in and out.

#include <cstring>

#include "common/check.h"
#include "kernels/bf16.h"
#include "kernels/op_checks.h"
#include "kernels/reference/reference_ops.h"

namespace phalanx {
namespace {

void CopyRow(const float* from, int64_t width, float* to) {
  std::memcpy(to, from, width * sizeof(float));
}

}  // namespace

void ReferenceOps::Embed(Tensor ids, Tensor table, int64_t first_id, Tensor y) {
  CheckEmbed(ids, table, first_id, y, DType::kF32);
  const int64_t H = table.dims[1];
  for (int64_t t = 0; t < ids.dims[0]; ++t) {
    const int64_t row = *ids.row<int32_t>(t) - first_id;
    const bool owned = row >= 0 && row < table.dims[0];
    for (int64_t i = 0; i < H; ++i) {
      y.row<float>(t)[i] =
          owned ? Bf16ToF32(table.row<uint16_t>(row)[i]) : 0.0f;
    }
  }
}

void ReferenceOps::SelectOwner(Tensor ids, int64_t rows_per_rank,
                               Tensor gathered, Tensor y) {
  CheckSelectOwner(ids, rows_per_rank, gathered, y, DType::kF32);
  const int64_t H = gathered.dims[2];
  for (int64_t t = 0; t < ids.dims[0]; ++t) {
    const int64_t owner = *ids.row<int32_t>(t) / rows_per_rank;
    CHECK(owner >= 0 && owner < gathered.dims[0]);
    CopyRow(gathered.row<float>(owner) + t * H, H, y.row<float>(t));
  }
}

void ReferenceOps::GatherRows(Tensor x, Tensor rows, Tensor y) {
  CheckGatherRows(x, rows, y, DType::kF32);
  for (int64_t r = 0; r < rows.dims[0]; ++r) {
    const int64_t row = *rows.row<int32_t>(r);
    CHECK(row >= 0 && row < x.dims[0]);
    CopyRow(x.row<float>(row), x.dims[1], y.row<float>(r));
  }
}

void ReferenceOps::Copy(Tensor x, Tensor y) {
  CheckCopy(x, y);
  const int64_t size = ElementBytes(x.dtype);
  for (int64_t t = 0; t < x.dims[0]; ++t)
    std::memmove(static_cast<char*>(y.data) + t * y.row_stride * size,
                 static_cast<char*>(x.data) + t * x.row_stride * size,
                 x.dims[1] * size);
}

}  // namespace phalanx
