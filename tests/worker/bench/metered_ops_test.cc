#include "worker/bench/metered_ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "worker/bench/metered_backend.h"
#include "worker/bench/operands.h"

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

constexpr int64_t kRows = 3;
constexpr int64_t kHidden = 64;
constexpr int64_t kExperts = 4;

class MeteredOpsTest : public testing::Test {
 protected:
  Tensor Floats(int64_t rows, int64_t cols) {
    return *operands_.Floats(DType::kBf16, rows, cols);
  }
  PackedWeight Weights(int64_t count, WeightLayout layout,
                       WeightFormat format = WeightFormat::kBf16) {
    std::vector<PackedWeight> all = *operands_.Weights({.count = count,
                                                        .rows = kHidden,
                                                        .cols = kHidden,
                                                        .layout = layout,
                                                        .format = format});
    return std::move(all.front());
  }

  // Each of kRows tokens by the expert that it likes best; work restarts
  // before.
  Routing Routed(const std::vector<float>& likings) {
    const Tensor logits = *operands_.Zeros(DType::kF32, kRows, kExperts);
    backend_.Upload(likings.data(), logits);
    const Routing routing{
        .expert = *operands_.Zeros(DType::kI32, kRows, 1),
        .weight = *operands_.Zeros(DType::kF32, kRows, 1),
        .offsets = *operands_.Zeros(DType::kI32, kExperts + 1),
        .order = *operands_.Zeros(DType::kI32, kRows)};
    ops_.Restart(/*timing=*/false);
    ops_.Route(logits, true, routing);
    return routing;
  }
  // One token by one expert, two by another.
  Routing RoutedOneAndTwo() {
    return Routed({1, 9, 0, 0, 1, 9, 0, 0, 0, 1, 0, 9});
  }

  // What a bf16 matrix of those counts as.
  static Product BySoManyRows(Part part, int64_t rows) {
    return {.part = part,
            .peak = Peak::kBf16,
            .bytes = kHidden * kHidden * 2,
            .flops = static_cast<double>(2 * rows * kHidden * kHidden)};
  }

  MeteredBackend backend_{*CreateCpuBackend({})};
  MeteredOps& ops_ = backend_.metered();
  Operands operands_{backend_};
};

TEST_F(MeteredOpsTest, AProductReadsItsMatrixOnce) {
  const PackedWeight w = Weights(1, WeightLayout::kPlain);
  const Tensor y = Floats(kRows, kHidden);
  ops_.Restart(/*timing=*/false);

  ops_.MatMul(Floats(kRows, kHidden), w, y);

  EXPECT_EQ(ops_.work().weight_bytes(), kHidden * kHidden * 2);
  EXPECT_EQ(ops_.work().flops(), 2 * kRows * kHidden * kHidden);
}

TEST_F(MeteredOpsTest, AProductOfNoRowsReadsNothing) {
  const PackedWeight w = Weights(1, WeightLayout::kPlain);
  ops_.Restart(/*timing=*/false);

  ops_.MatMul(Rows(Floats(kRows, kHidden), 0, 0), w,
              Rows(Floats(kRows, kHidden), 0, 0));

  EXPECT_EQ(ops_.work().weight_bytes(), 0);
}

TEST_F(MeteredOpsTest, AnExpertIsReadOnceForAllItsTokens) {
  const PackedWeight up = Weights(kExperts, WeightLayout::kGateUp);
  const Routing routing = RoutedOneAndTwo();

  ops_.ExpertsGateUp(Floats(kRows, kHidden), up, routing,
                     Floats(kRows, kHidden / 2));

  EXPECT_EQ(ops_.work().experts, 2);
  EXPECT_EQ(ops_.work().weight_bytes(), 2 * kHidden * kHidden * 2);
  EXPECT_EQ(ops_.work().flops(), 2 * kRows * kHidden * kHidden);
}

TEST_F(MeteredOpsTest, AnExpertIsAProductOfItsOwnTokens) {
  const PackedWeight up = Weights(kExperts, WeightLayout::kGateUp);
  const Routing routing = RoutedOneAndTwo();

  ops_.ExpertsGateUp(Floats(kRows, kHidden), up, routing,
                     Floats(kRows, kHidden / 2));

  EXPECT_THAT(ops_.work().products.entries(),
              UnorderedElementsAre(BySoManyRows(Part::kExperts, 1),
                                   BySoManyRows(Part::kExperts, 2)));
}

TEST_F(MeteredOpsTest, ExpertsWithAsManyTokensAreOneEntry) {
  const PackedWeight up = Weights(kExperts, WeightLayout::kGateUp);
  const Routing routing = Routed({9, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 9});

  ops_.ExpertsGateUp(Floats(kRows, kHidden), up, routing,
                     Floats(kRows, kHidden / 2));

  ASSERT_EQ(ops_.work().products.entries().size(), 1u);
  EXPECT_EQ(ops_.work().products.bytes(), 3 * kHidden * kHidden * 2);
}

TEST_F(MeteredOpsTest, AProductIsHeldAgainstThePeakOfItsOwnWeights) {
  const PackedWeight w = Weights(1, WeightLayout::kPlain, WeightFormat::kInt8);
  ops_.Restart(/*timing=*/false);

  ops_.MatMul(Floats(kRows, kHidden), w, Floats(kRows, kHidden));

  ASSERT_EQ(ops_.work().products.entries().size(), 1u);
  EXPECT_EQ(ops_.work().products.entries()[0].peak, Peak::kInt8);
}

TEST_F(MeteredOpsTest, RowsOfTheEmbeddingAreOnlyRead) {
  const Tensor ids = *operands_.Ints({0, 1, 1});
  ops_.Restart(/*timing=*/false);

  ops_.Embed(ids, Floats(4, kHidden), 0, Floats(kRows, kHidden));

  EXPECT_THAT(ops_.work().products.entries(),
              ElementsAre(Product{.part = Part::kRest,
                                  .peak = Peak::kNone,
                                  .bytes = kRows * kHidden * 2}));
}

TEST_F(MeteredOpsTest, TheHeadsProductIsTheHeads) {
  const PackedWeight w = Weights(1, WeightLayout::kPlain);
  ops_.SetHead(nullptr, w.storage.data());
  ops_.Restart(/*timing=*/false);

  ops_.MatMul(Floats(kRows, kHidden), w, Floats(kRows, kHidden));

  EXPECT_THAT(ops_.work().products.entries(),
              ElementsAre(BySoManyRows(Part::kHead, kRows)));
}

TEST_F(MeteredOpsTest, TheHeadIsKnownByItsWeights) {
  const PackedWeight w = Weights(1, WeightLayout::kPlain);
  ops_.SetHead(nullptr, w.storage.data());
  const Tensor x = Floats(kRows, kHidden);
  const Tensor y = Floats(kRows, kHidden);
  ops_.Restart(/*timing=*/true);

  ops_.MatMul(x, w, y);

  EXPECT_GT(ops_.seconds()[static_cast<size_t>(Part::kHead)], 0);
  EXPECT_EQ(ops_.seconds()[static_cast<size_t>(Part::kDense)], 0);
}

TEST_F(MeteredOpsTest, TimesNothingUnlessTold) {
  const Tensor x = Floats(kRows, kHidden);
  ops_.Restart(/*timing=*/false);

  ops_.Add(x, x, x);

  EXPECT_EQ(ops_.seconds(), PartSeconds{});
}

}  // namespace
}  // namespace phalanx
