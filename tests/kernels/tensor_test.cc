#include "kernels/tensor.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "kernels/bf16.h"

namespace phalanx {
namespace {

TEST(TensorTest, SplitColumnsGivesViewsOfAdjacentBlocks) {
  std::vector<float> data = {0, 1, 2, 3, 4, 5};

  const auto [left, right] =
      SplitColumns<2>(MakeTensor(data.data(), DType::kF32, 2, 3), {1, 2});

  EXPECT_EQ(*left.row<float>(1), 3);
  EXPECT_EQ(right.row<float>(1)[1], 5);
  EXPECT_EQ(right.dims[1], 2);
  EXPECT_FALSE(right.contiguous());
}

TEST(TensorTest, SplitColumnsCountsElementsOfTheType) {
  std::vector<uint16_t> data = {0, 1, 2, 3};

  const auto [left, right] =
      SplitColumns<2>(MakeTensor(data.data(), DType::kBf16, 2, 2), {1, 1});

  EXPECT_EQ(*right.row<uint16_t>(1), 3);
  EXPECT_EQ(*left.row<uint16_t>(1), 2);
}

TEST(TensorTest, HeadsKeepsTheDistanceBetweenRows) {
  std::vector<float> data(2 * 6);
  const Tensor all = MakeTensor(data.data(), DType::kF32, 2, 6);

  const Tensor heads = Heads(SplitColumns<2>(all, {4, 2})[0], 2);

  EXPECT_EQ(heads.rank, 3);
  EXPECT_EQ(heads.dims[1], 2);
  EXPECT_EQ(heads.dims[2], 2);
  EXPECT_EQ(heads.row_stride, 6);
}

TEST(TensorTest, RowsIsAViewOfTheRowsFromTheFirst) {
  std::vector<float> data = {0, 1, 2, 3, 4, 5};

  const Tensor rows = Rows(MakeTensor(data.data(), DType::kF32, 3, 2), 1, 2);

  EXPECT_EQ(rows.dims[0], 2);
  EXPECT_EQ(rows.row<float>(1)[1], 5);
}

TEST(Bf16Test, ANanStaysANan) {
  // Rounding its low bits up would carry into infinity.
  const uint32_t bits = 0x7f800001;
  float nan;
  std::memcpy(&nan, &bits, sizeof(nan));

  const float wide = Bf16ToF32(F32ToBf16(nan));

  EXPECT_NE(wide, wide);
}

TEST(Bf16Test, EveryBf16NumberComesBackFromF32) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = Bf16ToF32(static_cast<uint16_t>(bits));
    if (value != value) continue;
    ASSERT_EQ(F32ToBf16(value), bits);
  }
}

}  // namespace
}  // namespace phalanx
