// Quantising rows on CPU: every instruction set gives the codes and scales of
// kernels/quantise.h, and those are what its contract says, number by number.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/bf16.h"
#include "kernels/cpu/cpu_quantiser.h"
#include "tests/kernels/cpu/array.h"
#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

struct Row {
  std::vector<uint8_t> codes;
  std::vector<uint16_t> scales;

  bool operator==(const Row&) const = default;
};

using Bf16Row = std::vector<uint16_t>;

Row QuantiseBy(WeightRowQuantiser quantise, const Bf16Row& x, int slices,
               WeightFormat format) {
  const auto cols = static_cast<int64_t>(x.size());
  Row row;
  row.codes.resize(x.size());
  row.scales.resize(static_cast<size_t>(GroupsOf(cols, slices).count));
  quantise(x.data(), cols, slices, format, row.codes.data(), row.scales.data());
  return row;
}

// --- The contract, one number after another --------------------------------

int PlainCode(float x, float scale, int low, int high) {
  const float code = std::nearbyint(x * (1.0f / scale));
  return static_cast<int>(
      std::clamp(code, static_cast<float>(low), static_cast<float>(high)));
}

// The squared error of a group in squares of its scale: 16 sums, then theirs.
float PlainError(const std::vector<float>& x, float scale) {
  float lanes[16] = {};
  for (size_t i = 0; i < x.size(); ++i) {
    const float scaled = x[i] * (1.0f / scale);
    const float error =
        scaled - static_cast<float>(PlainCode(x[i], scale, -8, 7));
    const float squared = error * error;
    lanes[i % 16] += squared;
  }
  float sum = 0.0f;
  for (const float lane : lanes) sum += lane;
  return sum;
}

uint16_t PlainInt4Scale(const std::vector<float>& x, float peak) {
  uint16_t best = 0;
  float first = 0.0f;
  float least = std::numeric_limits<float>::infinity();
  for (int i = 0; i < 8; ++i) {
    const uint16_t scale =
        F32ToBf16(peak / -(7.5f + 0.5f * static_cast<float>(i)));
    if (i == 0) first = Bf16ToF32(scale);
    const float ratio = Bf16ToF32(scale) / first;
    const float error = PlainError(x, Bf16ToF32(scale)) * (ratio * ratio);
    if (error >= least) continue;
    best = scale;
    least = error;
  }
  return best;
}

void PlainGroup(const std::vector<float>& x, WeightFormat format, Row& row) {
  const int zero = ZeroPoint(format);
  float peak = 0.0f;
  bool finite = true;
  for (const float one : x) {
    finite = finite && std::isfinite(one);
    if (std::abs(one) > std::abs(peak)) peak = one;
  }
  const bool zeros = !finite || std::abs(peak) < 0x1p-100f;
  if (zeros) {
    row.scales.push_back(finite ? 0 : 0x7fc0);
  } else {
    row.scales.push_back(format == WeightFormat::kInt8
                             ? F32ToBf16(std::abs(peak) / 127.0f)
                             : PlainInt4Scale(x, peak));
  }
  const int high = format == WeightFormat::kInt8 ? 127 : 7;
  const int low = format == WeightFormat::kInt8 ? -127 : -8;
  for (const float one : x) {
    const int code =
        zeros ? 0 : PlainCode(one, Bf16ToF32(row.scales.back()), low, high);
    row.codes.push_back(static_cast<uint8_t>(zero + code));
  }
}

Row QuantisePlainly(const Bf16Row& x, int slices, WeightFormat format) {
  const WeightGroups groups = GroupsOf(static_cast<int64_t>(x.size()), slices);
  Row row;
  for (int64_t at = 0; at < static_cast<int64_t>(x.size());) {
    const int64_t left = groups.slice_cols - at % groups.slice_cols;
    std::vector<float> group;
    for (const int64_t end = at + std::min(groups.cols, left); at < end; ++at)
      group.push_back(Bf16ToF32(x[static_cast<size_t>(at)]));
    PlainGroup(group, format, row);
  }
  return row;
}

// --- Rows ------------------------------------------------------------------

Bf16Row NormalRow(int64_t cols, float scale, std::mt19937& random) {
  std::normal_distribution<float> normal(0.0f, scale);
  Bf16Row row;
  for (int64_t i = 0; i < cols; ++i) row.push_back(F32ToBf16(normal(random)));
  return row;
}

// Few magnitudes, so many elements are the largest, and many codes a half.
Bf16Row CoarseRow(int64_t cols, std::mt19937& random) {
  Bf16Row row;
  for (int64_t i = 0; i < cols; ++i)
    row.push_back(
        F32ToBf16(static_cast<float>(static_cast<int>(random() % 31) - 15)));
  return row;
}

// Any bits, but in most groups finite ones.
Bf16Row WildRow(int64_t cols, std::mt19937& random) {
  Bf16Row row;
  for (int64_t i = 0; i < cols; ++i) {
    const auto bits = static_cast<uint16_t>(random());
    const bool finite = (bits & 0x7f80) != 0x7f80;
    row.push_back(finite || random() % 4 == 0 ? bits : 0);
  }
  return row;
}

struct Cut {
  int64_t cols;
  int slices;
};

// Whole groups; groups of 128 and a rest; slices narrower than a group, and
// than a vector.
constexpr Cut kCuts[] = {{512, 1}, {200, 1}, {2112, 8},
                         {512, 8}, {56, 8},  {7, 1}};

// Calls check(row, slices) for rows of every kind and cut.
template <typename Check>
void ForRows(const Check& check) {
  std::mt19937 random(7);
  for (const auto& [cols, slices] : kCuts) {
    for (int i = 0; i < 20; ++i) {
      check(NormalRow(cols, 0.02f, random), slices);
      check(NormalRow(cols, 0x1p-99f, random), slices);
      check(CoarseRow(cols, random), slices);
      check(WildRow(cols, random), slices);
    }
  }
}

class QuantWeightRowTest : public testing::TestWithParam<Isa> {};

TEST_P(QuantWeightRowTest, GivesTheCodesAndScalesOfQuantiseWeightRow) {
  const KernelTable& kernels = Kernels(GetParam());

  for (const WeightFormat format : {WeightFormat::kInt8, WeightFormat::kInt4}) {
    ForRows([&](const Bf16Row& row, int slices) {
      EXPECT_TRUE(
          QuantiseBy(kernels.quantise_weight_row, row, slices, format) ==
          QuantiseBy(QuantiseWeightRow, row, slices, format))
          << WeightFormatName(format) << ", " << row.size() << " columns in "
          << slices;
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Sets, QuantWeightRowTest,
                         testing::ValuesIn(TestIsas()),
                         [](const testing::TestParamInfo<Isa>& info) {
                           return std::string(IsaName(info.param));
                         });

TEST(QuantiseWeightRow, GivesWhatItsContractSaysNumberByNumber) {
  for (const WeightFormat format : {WeightFormat::kInt8, WeightFormat::kInt4}) {
    ForRows([&](const Bf16Row& row, int slices) {
      EXPECT_TRUE(QuantiseBy(QuantiseWeightRow, row, slices, format) ==
                  QuantisePlainly(row, slices, format))
          << WeightFormatName(format) << ", " << row.size() << " columns in "
          << slices;
    });
  }
}

TEST(CpuWeightRowQuantiser, IsThatOfTheSetThatPhalanxIsaNames) {
  setenv("PHALANX_ISA", "portable", /*replace=*/1);
  const auto quantise = CpuWeightRowQuantiser();
  unsetenv("PHALANX_ISA");

  ASSERT_OK(quantise);
  EXPECT_EQ(*quantise, Kernels(Isa::kPortable).quantise_weight_row);
}

TEST(CpuWeightRowQuantiser, RefusesASetThatNobodyKnows) {
  setenv("PHALANX_ISA", "mmx", /*replace=*/1);
  const auto quantise = CpuWeightRowQuantiser();
  unsetenv("PHALANX_ISA");

  EXPECT_THAT(quantise, StatusIs(absl::StatusCode::kInvalidArgument,
                                 testing::HasSubstr("mmx")));
}

}  // namespace
}  // namespace phalanx
