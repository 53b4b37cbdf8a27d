// The exactness of MatMul, MatMulSliced and GateUp: which chain, and that
// nothing else matters to it.

#include <algorithm>

#include "tests/kernels/cpu/matmul_rig.h"

namespace phalanx {
namespace {

// No multiple of a tile, and more columns than a chunk of a panel.
constexpr int64_t kRows = 77;
constexpr int64_t kCols = 656;

class MatMulTest : public testing::TestWithParam<CpuKind> {
 protected:
  void SetUp() override {
    if (!CanRun(GetParam())) GTEST_SKIP() << "not on this processor";
  }

  // x W^T for the first `tokens` rows of x.
  static Floats Run(Backend& backend, const Bf16s& x, int64_t tokens,
                    const PackedWeight& w) {
    Floats y(tokens * w.rows);
    backend.ops().MatMul(Input(x, tokens, w.cols), w,
                         MakeTensor(y.data(), DType::kF32, tokens, w.rows));
    EXPECT_OK(backend.Synchronize());
    return y;
  }

  static Tensor Input(const Bf16s& x, int64_t tokens, int64_t cols) {
    return MakeTensor(const_cast<uint16_t*>(x.data()), DType::kBf16, tokens,
                      cols);
  }
};

TEST_P(MatMulTest, ARowsResultDoesNotDependOnTheNumberOfRows) {
  auto backend = MakeCpu(GetParam());
  const Bf16s x = RandomBf16(33 * kCols, 1);
  const PackedWeight w = Pack(*backend, RandomBf16(kRows * kCols, 2), 1, kRows,
                              kCols, WeightLayout::kPlain);
  const Floats all = Run(*backend, x, 33, w);

  for (int64_t tokens = 1; tokens < 33; ++tokens) {
    const Floats some = Run(*backend, x, tokens, w);
    ASSERT_TRUE(std::equal(some.begin(), some.end(), all.begin())) << tokens;
  }
}

TEST_P(MatMulTest, ManyRowsGiveWhatEachGivesAlone) {
  auto backend = MakeCpu(GetParam(), 2);
  constexpr int64_t kTokens = 210;
  const Bf16s x = RandomBf16(kTokens * kCols, 1);
  const PackedWeight w = Pack(*backend, RandomBf16(40 * kCols, 2), 1, 40, kCols,
                              WeightLayout::kPlain);
  const Floats all = Run(*backend, x, kTokens, w);

  for (int64_t t = 0; t < kTokens; ++t) {
    const Bf16s row(x.begin() + t * kCols, x.begin() + (t + 1) * kCols);
    const Floats one = Run(*backend, row, 1, w);
    ASSERT_TRUE(std::equal(one.begin(), one.end(), all.begin() + t * 40)) << t;
  }
}

TEST_P(MatMulTest, ThreadsDoNotMatter) {
  const Bf16s x = RandomBf16(20 * kCols, 3);
  const Bf16s host = RandomBf16(kRows * kCols, 4);
  auto alone = MakeCpu(GetParam(), 1);
  const Floats want = Run(
      *alone, x, 20, Pack(*alone, host, 1, kRows, kCols, WeightLayout::kPlain));

  for (const int threads : {2, 3}) {
    auto backend = MakeCpu(GetParam(), threads);
    const PackedWeight w =
        Pack(*backend, host, 1, kRows, kCols, WeightLayout::kPlain);
    EXPECT_EQ(Run(*backend, x, 20, w), want) << threads;
  }
}

TEST_P(MatMulTest, IsNearTheTrueProduct) {
  auto backend = MakeCpu(GetParam());
  const Bf16s x = RandomBf16(5 * kCols, 5);
  const Bf16s host = RandomBf16(kRows * kCols, 6);
  const Floats y =
      Run(*backend, x, 5,
          Pack(*backend, host, 1, kRows, kCols, WeightLayout::kPlain));

  for (int64_t t = 0; t < 5; ++t) {
    for (int64_t n = 0; n < kRows; ++n) {
      double want = 0;
      double size = 0;
      for (int64_t k = 0; k < kCols; ++k) {
        const double term = static_cast<double>(Bf16ToF32(x[t * kCols + k])) *
                            Bf16ToF32(host[n * kCols + k]);
        want += term;
        size += std::abs(term);
      }
      ASSERT_NEAR(y[t * kRows + n], want, size * kCols * 0x1p-24);
    }
  }
}

TEST_P(MatMulTest, RoundsOnceWhereTheResultIsBf16) {
  auto backend = MakeCpu(GetParam());
  const Bf16s x = RandomBf16(3 * kCols, 7);
  const PackedWeight w = Pack(*backend, RandomBf16(kRows * kCols, 8), 1, kRows,
                              kCols, WeightLayout::kPlain);
  const Floats wide = Run(*backend, x, 3, w);
  Bf16s y(3 * kRows);

  backend->ops().MatMul(Input(x, 3, kCols), w,
                        MakeTensor(y.data(), DType::kBf16, 3, kRows));

  for (size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], F32ToBf16(wide[i]));
}

TEST_P(MatMulTest, WritesNothingBesideItsRows) {
  auto backend = MakeCpu(GetParam());
  const Bf16s x = RandomBf16(2 * kCols, 9);
  const PackedWeight w = Pack(*backend, RandomBf16(kRows * kCols, 10), 1, kRows,
                              kCols, WeightLayout::kPlain);
  Floats y(2 * (kRows + 3), 99.0f);
  Tensor view = MakeTensor(y.data(), DType::kF32, 2, kRows);
  view.row_stride = kRows + 3;

  backend->ops().MatMul(Input(x, 2, kCols), w, view);

  for (int64_t t = 0; t < 2; ++t)
    for (int64_t i = 0; i < 3; ++i)
      EXPECT_EQ(y[t * (kRows + 3) + kRows + i], 99.0f);
}

TEST_P(MatMulTest, HalvesOfTheSlicesAddUpToTheWhole) {
  auto backend = MakeCpu(GetParam());
  constexpr int64_t kTokens = 13;
  const Bf16s x = RandomBf16(kTokens * kCols, 11);
  const Bf16s host = RandomBf16(kRows * kCols, 12);
  const int64_t half = kCols / 2;
  Floats parts[2];
  for (int p = 0; p < 2; ++p) {
    Bf16s part;
    for (int64_t n = 0; n < kRows; ++n) {
      const auto begin = host.begin() + n * kCols + p * half;
      part.insert(part.end(), begin, begin + half);
    }
    const PackedWeight w =
        Pack(*backend, part, 1, kRows, half, WeightLayout::kPlain);
    auto columns =
        SplitColumns(Input(x, kTokens, kCols), std::array{half, half});
    parts[p].resize(kTokens * kRows);
    backend->ops().MatMulSliced(
        columns[p], w, 4,
        MakeTensor(parts[p].data(), DType::kF32, kTokens, kRows));
  }
  const PackedWeight w =
      Pack(*backend, host, 1, kRows, kCols, WeightLayout::kPlain);
  Floats whole(kTokens * kRows);

  backend->ops().MatMulSliced(
      Input(x, kTokens, kCols), w, 8,
      MakeTensor(whole.data(), DType::kF32, kTokens, kRows));

  for (size_t i = 0; i < whole.size(); ++i)
    ASSERT_EQ(whole[i], parts[0][i] + parts[1][i]) << i;
}

TEST_P(MatMulTest, GateUpIsSiluOfTheRoundedGateTimesTheRoundedUp) {
  auto backend = MakeCpu(GetParam());
  constexpr int64_t kWidth = 37;
  constexpr int64_t kTokens = 14;
  const Bf16s x = RandomBf16(kTokens * 64, 13);
  const Bf16s host = RandomBf16(2 * kWidth * 64, 14);
  Bf16s both(kTokens * 2 * kWidth);
  backend->ops().MatMul(
      Input(x, kTokens, 64),
      Pack(*backend, host, 1, 2 * kWidth, 64, WeightLayout::kPlain),
      MakeTensor(both.data(), DType::kBf16, kTokens, 2 * kWidth));
  Bf16s y(kTokens * kWidth);

  backend->ops().GateUp(
      Input(x, kTokens, 64),
      Pack(*backend, host, 1, 2 * kWidth, 64, WeightLayout::kGateUp),
      MakeTensor(y.data(), DType::kBf16, kTokens, kWidth));

  for (int64_t t = 0; t < kTokens; ++t) {
    for (int64_t i = 0; i < kWidth; ++i) {
      const double gate = Bf16ToF32(both[t * 2 * kWidth + i]);
      const double up = Bf16ToF32(both[t * 2 * kWidth + kWidth + i]);
      const double want = gate / (1 + std::exp(-gate)) * up;
      // Half a unit of bf16, and a little for exp.
      ASSERT_NEAR(Bf16ToF32(y[t * kWidth + i]), want,
                  std::abs(want) * 0x1.01p-8);
    }
  }
}

TEST_P(MatMulTest, NoRowsDoNothing) {
  auto backend = MakeCpu(GetParam(), 2);
  const PackedWeight w = Pack(*backend, RandomBf16(kRows * kCols, 2), 1, kRows,
                              kCols, WeightLayout::kPlain);

  EXPECT_TRUE(Run(*backend, {}, 0, w).empty());
}

INSTANTIATE_TEST_SUITE_P(Kinds, MatMulTest,
                         testing::Values(kPortableFma, kAvx2Fma, kAvx512Fma,
                                         kAvx512Bf16Dot),
                         KindName);

class FmaTest : public MatMulTest {};

TEST_P(FmaTest, EachOutputIsOneChainOverTheColumns) {
  auto backend = MakeCpu(GetParam());
  const Bf16s x = RandomBf16(15 * kCols, 15);
  const Bf16s host = RandomBf16(kRows * kCols, 16);

  const Floats y =
      Run(*backend, x, 15,
          Pack(*backend, host, 1, kRows, kCols, WeightLayout::kPlain));

  for (int64_t t = 0; t < 15; ++t) {
    for (int64_t n = 0; n < kRows; ++n) {
      ASSERT_EQ(y[t * kRows + n],
                Chain(&x[t * kCols], &host[n * kCols], 0, kCols));
    }
  }
}

TEST_P(FmaTest, EachSliceIsAChainAndTheSlicesATree) {
  auto backend = MakeCpu(GetParam());
  const Bf16s x = RandomBf16(15 * kCols, 17);
  const Bf16s host = RandomBf16(kRows * kCols, 18);
  const PackedWeight w =
      Pack(*backend, host, 1, kRows, kCols, WeightLayout::kPlain);

  for (const int slices : {1, 2, 4, 8}) {
    Floats y(15 * kRows);
    backend->ops().MatMulSliced(Input(x, 15, kCols), w, slices,
                                MakeTensor(y.data(), DType::kF32, 15, kRows));
    for (int64_t t = 0; t < 15; ++t) {
      for (int64_t n = 0; n < kRows; ++n) {
        ASSERT_EQ(y[t * kRows + n],
                  SlicedChain(&x[t * kCols], &host[n * kCols], kCols, slices));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, FmaTest,
                         testing::Values(kPortableFma, kAvx2Fma, kAvx512Fma),
                         KindName);

}  // namespace
}  // namespace phalanx
