#include "kernels/quantise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/bf16.h"
#include "tests/kernels/rig.h"

namespace phalanx {
namespace {

using testing::Each;
using testing::ElementsAre;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A row of a weight and what it became.
struct Quantised {
  Quantised(const Floats& row, int slices, WeightFormat format)
      : zero(ZeroPoint(format)), groups(GroupsOf(row.size(), slices)) {
    std::vector<uint16_t> bits;
    for (float x : row) bits.push_back(F32ToBf16(x));
    codes.resize(row.size());
    std::vector<uint16_t> narrow(groups.count);
    QuantiseWeightRow(bits.data(), row.size(), slices, format, codes.data(),
                      narrow.data());
    for (uint16_t scale : narrow) scales.push_back(Bf16ToF32(scale));
  }

  std::vector<int> whole() const {
    std::vector<int> values;
    for (uint8_t code : codes) values.push_back(code - zero);
    return values;
  }

  const int zero;
  const WeightGroups groups;
  std::vector<uint8_t> codes;
  Floats scales;
};

// The sum of squared errors of a row of one group.
double SquaredError(const Floats& row, const Quantised& quantised) {
  double sum = 0;
  for (size_t i = 0; i < row.size(); ++i) {
    const double error = row[i] - quantised.scales[0] * quantised.whole()[i];
    sum += error * error;
  }
  return sum;
}

TEST(QuantiseWeightRow, OfInt8GivesTheLargestMagnitudeTheLargestCode) {
  const Quantised q({127, -127, 64, 1, 0, -3}, 1, WeightFormat::kInt8);

  EXPECT_THAT(q.whole(), ElementsAre(127, -127, 64, 1, 0, -3));
  EXPECT_THAT(q.scales, ElementsAre(1));
}

TEST(QuantiseWeightRow, OfInt8IsWithinHalfAStep) {
  const Floats row = Noise(1, 128);

  const Quantised q(row, 1, WeightFormat::kInt8);

  // The scale is rounded to bf16, so the largest code may be cut.
  for (size_t i = 0; i < row.size(); ++i)
    EXPECT_NEAR(q.scales[0] * q.whole()[i], row[i], 0.76 * q.scales[0]);
}

TEST(QuantiseWeightRow, OfInt4GivesTheElementOfLargestMagnitudeMinusEight) {
  const Quantised up({8, -7, 4, 0, 1, 2}, 1, WeightFormat::kInt4);
  const Quantised down({-8, 7, 4, 0, 1, 2}, 1, WeightFormat::kInt4);

  EXPECT_THAT(up.whole(), ElementsAre(-8, 7, -4, 0, -1, -2));
  EXPECT_THAT(up.scales, ElementsAre(-1));
  EXPECT_THAT(down.whole(), ElementsAre(-8, 7, 4, 0, 1, 2));
  EXPECT_THAT(down.scales, ElementsAre(1));
}

TEST(QuantiseWeightRow, OfInt4TakesTheScaleOfTheLeastSquaredError) {
  const Floats row = Noise(2, 128);

  const Quantised q(row, 1, WeightFormat::kInt4);

  float peak = 0;
  for (float x : row)
    if (std::abs(x) > std::abs(peak)) peak = x;
  for (int i = 0; i < 8; ++i) {
    const float scale =
        RoundToBf16(peak / -(7.5f + 0.5f * static_cast<float>(i)));
    double other = 0;
    for (float x : row) {
      const double code = std::clamp(std::nearbyint(x / scale), -8.0f, 7.0f);
      other += (x - scale * code) * (x - scale * code);
    }
    EXPECT_LE(SquaredError(row, q), other * (1 + 1e-5)) << scale;
  }
}

TEST(QuantiseWeightRow, GivesEachGroupAScaleOfItsOwn) {
  Floats row(2 * 200, 0);
  row[0] = 127;  // Slice 0: columns 0 .. 127, 128 .. 199.
  row[128] = 254;
  row[200 + 127] = 63.5f;  // Slice 1.
  row[399] = -508;

  const Quantised q(row, 2, WeightFormat::kInt8);

  EXPECT_THAT(q.scales, ElementsAre(1, 2, 0.5f, 4));
}

TEST(QuantiseWeightRow, GroupsASliceThatIsNarrowerThanAGroup) {
  Floats row(8 * 6, 1);
  for (int64_t i = 0; i < 48; ++i) row[i] = std::ldexp(127.0f, i / 6);

  const Quantised q(row, 8, WeightFormat::kInt8);

  EXPECT_THAT(q.scales, ElementsAre(1, 2, 4, 8, 16, 32, 64, 128));
}

TEST(QuantiseWeightRow, OfZerosAndOfDustHasScaleZero) {
  for (float x : {0.0f, 0x1p-101f, -0x1p-120f}) {
    const Quantised q(Floats(20, x), 1, WeightFormat::kInt4);
    EXPECT_THAT(q.scales, ElementsAre(0)) << x;
    EXPECT_THAT(q.whole(), Each(0)) << x;
  }
}

TEST(QuantiseWeightRow, OfWhatIsNotFiniteHasScaleNan) {
  for (const WeightFormat format : {WeightFormat::kInt8, WeightFormat::kInt4}) {
    for (float x :
         {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
      const Quantised q({1, x, 2}, 1, format);
      EXPECT_TRUE(std::isnan(q.scales[0])) << x;
      EXPECT_THAT(q.whole(), Each(0)) << x;
    }
  }
}

TEST(QuantiseWeightRow, OfTheLargestBf16DoesNotOverflow) {
  const float most = Bf16ToF32(0x7f7f);

  const Quantised q({most, -most / 2}, 1, WeightFormat::kInt4);

  EXPECT_THAT(q.whole(), ElementsAre(-8, 4));
}

TEST(QuantiseActivations, RoundsToNearestEvenOfMaxOver127) {
  const Floats x = {127, 2.5f, 3.5f, -2.5f, -127, 0.49f};
  int8_t codes[6];

  EXPECT_EQ(QuantiseActivations(x.data(), 6, codes), 1);

  EXPECT_THAT(codes, ElementsAre(127, 2, 4, -2, -127, 0));
}

TEST(QuantiseActivations, IsWhatTheContractSaysOfEveryWidth) {
  for (int64_t count = 1; count <= kMaxGroupCols; ++count) {
    const Floats x = Noise(count, count);
    std::vector<int8_t> codes(count);

    const float scale = QuantiseActivations(x.data(), count, codes.data());

    float most = 0;
    for (float value : x) most = std::max(most, std::abs(value));
    ASSERT_EQ(scale, most / 127);
    for (int64_t i = 0; i < count; ++i) {
      ASSERT_EQ(codes[i], std::nearbyint(x[i] * (127 / most)))
          << i << " of " << count;
    }
  }
}

TEST(QuantiseActivations, OfZerosAndOfDustHasScaleZero) {
  for (float value : {0.0f, 0x1p-101f}) {
    const Floats x(20, value);
    int8_t codes[20];
    EXPECT_EQ(QuantiseActivations(x.data(), 20, codes), 0);
    EXPECT_THAT(codes, Each(0));
  }
}

TEST(QuantiseActivations, OfWhatIsNotFiniteHasScaleNan) {
  for (float value : {kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
    const Floats x = {1, value};
    int8_t codes[2];
    EXPECT_TRUE(std::isnan(QuantiseActivations(x.data(), 2, codes)));
    EXPECT_THAT(codes, Each(0));
  }
}

}  // namespace
}  // namespace phalanx
