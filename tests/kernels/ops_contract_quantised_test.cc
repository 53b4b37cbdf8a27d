// Products of int8 and int4, and weights of theirs: kernels/quantise.h and
// backend.h. A test's name has the format in it, as backends name what they
// lack.

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "kernels/bf16.h"
#include "kernels/quantise.h"
#include "tests/kernels/ops_contract.h"
#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

using testing::ElementsAre;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class QuantisedContract : public OpsContract {
 protected:
  const PackedWeight& Weight(int64_t rows, int64_t cols, const Floats& values,
                             WeightFormat format, int slices = 1) {
    return rig_.Weight(1, rows, cols, values, WeightLayout::kPlain, format,
                       slices);
  }

  Floats MatMul(const PackedWeight& w, const Floats& x) {
    const auto T = static_cast<int64_t>(x.size()) / w.cols;
    const Tensor y = rig_.F32({T, w.rows});
    ops_.MatMul(rig_.Act({T, w.cols}, x), w, y);
    return rig_.Read(y);
  }

  std::vector<std::byte> Packed(const PackedWeight& w, int64_t index) {
    std::vector<std::byte> bytes(static_cast<size_t>(w.matrix_bytes));
    rig_.backend().ReadPacked(w, index, bytes.data());
    return bytes;
  }

  // Whether codes and scales give the matrix that bf16 rows give.
  void ExpectPackCodesIsPackWeight(WeightFormat format, WeightLayout layout) {
    constexpr int64_t kRows = 70, kCols = 88;  // Slices of 11 columns.
    constexpr int kSlices = 8;
    const Floats values = Noise(1, kRows * kCols);
    const PackedWeight& want =
        rig_.Weight(1, kRows, kCols, values, layout, format, kSlices);
    auto got =
        rig_.backend().AllocateWeight(static_cast<const WeightShape&>(want),
                                      MemoryComponent::kAttention, "a weight");
    ASSERT_OK(got);
    std::vector<uint16_t> rows, scales(kRows * kSlices);
    for (float value : values) rows.push_back(F32ToBf16(value));
    std::vector<uint8_t> codes(kRows * kCols);
    for (int64_t row = 0; row < kRows; ++row) {
      QuantiseWeightRow(rows.data() + row * kCols, kCols, kSlices, format,
                        codes.data() + row * kCols,
                        scales.data() + row * kSlices);
    }

    rig_.backend().PackCodes(codes.data(), scales.data(), 0, *got);

    EXPECT_EQ(Packed(*got, 0), Packed(want, 0));
  }
};

using QuantisedContractDeathTest = QuantisedContract;

TEST_P(QuantisedContract, Int8MatMulOfWholeNumbersIsExact) {
  // The largest magnitudes are 127, so all scales are 1.
  const PackedWeight& w = Weight(
      2, 6, {127, 1, 2, 3, 4, 5, -127, 6, 5, 4, 3, 2}, WeightFormat::kInt8);

  EXPECT_THAT(
      MatMul(w, {127, -1, 1, 0, 2, 7, 1, 2, 3, 4, 5, -127}),
      ElementsAre(127 * 127 - 1 + 2 + 8 + 35, -127 * 127 - 6 + 5 + 6 + 14,
                  127 + 2 + 6 + 12 + 20 - 5 * 127,
                  -127 + 12 + 15 + 16 + 15 - 2 * 127));
}

TEST_P(QuantisedContract, Int4MatMulOfWholeNumbersIsExact) {
  // -8 and 7 of scale 1; 16 and -14 of scale -2.
  const PackedWeight& w = Weight(
      2, 10, {-8, 7, 0, 1, 2, 3, -4, 5, 6, -7, 16, -14, 0, 2, 4, 6, 8, 0, 2, 4},
      WeightFormat::kInt4);

  EXPECT_THAT(MatMul(w, {127, 2, 0, 0, 1, 0, 0, 0, 0, 3}),
              ElementsAre(-8 * 127 + 14 + 2 - 21, 16 * 127 - 28 + 4 + 12));
}

TEST_P(QuantisedContract, Int8MatMulScalesEachGroupByItself) {
  // Two groups, of 128 columns and of 2.
  Floats weights(130, 0), x(130, 0);
  weights[0] = 127;
  weights[129] = 508;  // Scale 4.
  x[0] = 254;          // Scale 2.
  x[129] = 63.5f;      // Scale 1/2.

  EXPECT_THAT(MatMul(Weight(1, 130, weights, WeightFormat::kInt8), x),
              ElementsAre(127 * 254 + 508 * 63.5f));
}

TEST_P(QuantisedContract, Int8AndInt4GiveNanWhereARowIsNotFinite) {
  for (const WeightFormat format : {WeightFormat::kInt8, WeightFormat::kInt4}) {
    for (float value : {kNan, std::numeric_limits<float>::infinity()}) {
      const Floats y = MatMul(Weight(2, 4, {1, 1, 1, 1, 0, 0, 0, 0}, format),
                              {1, 1, 1, 1, 1, value, 1, 1, 2, 2, 2, 2});

      EXPECT_FALSE(std::isnan(y[0]) || std::isnan(y[1])) << value;
      EXPECT_TRUE(std::isnan(y[2]) && std::isnan(y[3])) << value;
      EXPECT_FALSE(std::isnan(y[4]) || std::isnan(y[5])) << value;
    }
  }
}

TEST_P(QuantisedContract, Int8AndInt4GiveNanWhereAWeightIsNotFinite) {
  for (const WeightFormat format : {WeightFormat::kInt8, WeightFormat::kInt4}) {
    const Floats y =
        MatMul(Weight(2, 4, {1, 1, 1, 1, 1, kNan, 1, 1}, format), {1, 2, 3, 4});

    EXPECT_FALSE(std::isnan(y[0]));
    EXPECT_TRUE(std::isnan(y[1]));
  }
}

TEST_P(QuantisedContract, PackCodesOfInt8GivesTheBytesOfPackWeight) {
  ExpectPackCodesIsPackWeight(WeightFormat::kInt8, WeightLayout::kPlain);
  ExpectPackCodesIsPackWeight(WeightFormat::kInt8, WeightLayout::kGateUp);
}

TEST_P(QuantisedContract, PackCodesOfInt4GivesTheBytesOfPackWeight) {
  ExpectPackCodesIsPackWeight(WeightFormat::kInt4, WeightLayout::kPlain);
  ExpectPackCodesIsPackWeight(WeightFormat::kInt4, WeightLayout::kGateUp);
}

TEST_P(QuantisedContract, StoresInt8AndInt4ThatWereReadFromAnotherWeight) {
  for (const WeightFormat format : {WeightFormat::kInt8, WeightFormat::kInt4}) {
    const Floats x = Noise(2, 20);
    const PackedWeight& from = Weight(3, 20, Noise(3, 60), format);
    auto to =
        rig_.backend().AllocateWeight(static_cast<const WeightShape&>(from),
                                      MemoryComponent::kExpertSlots, "a slot");
    ASSERT_OK(to);

    rig_.backend().StorePacked(Packed(from, 0).data(), 0, *to);

    EXPECT_EQ(MatMul(*to, x), MatMul(from, x)) << WeightFormatName(format);
  }
}

TEST_P(QuantisedContract, AllocatesInt8AndInt4InLessMemoryThanBf16) {
  const WeightShape shape = {.count = 2, .rows = 64, .cols = 256};
  int64_t last = 64 * 256 * 2;
  for (const WeightFormat format : {WeightFormat::kInt8, WeightFormat::kInt4}) {
    WeightShape quantised = shape;
    quantised.format = format;

    const auto weight = rig_.backend().AllocateWeight(
        quantised, MemoryComponent::kAttention, "a weight");

    ASSERT_OK(weight);
    EXPECT_EQ(weight->format, format);
    EXPECT_GE(2 * weight->matrix_bytes, weight->share_bytes());
    // The reference keeps a byte for each code of int4, too.
    EXPECT_LE(weight->matrix_bytes, last);
    last = weight->matrix_bytes;
  }
}

TEST_P(QuantisedContractDeathTest, MatMulRefusesInt8OfOtherSlices) {
  const PackedWeight& w =
      Weight(1, 16, Floats(16, 1), WeightFormat::kInt8, /*slices=*/8);
  const Tensor x = rig_.Act({1, 16}, Floats(16, 1));
  const Tensor y = rig_.F32({1, 1});

  EXPECT_DEATH(ops_.MatMul(x, w, y), "MaySlice");
}

PHALANX_FOR_EVERY_BACKEND(QuantisedContract);
PHALANX_FOR_EVERY_BACKEND(QuantisedContractDeathTest);

}  // namespace
}  // namespace phalanx
