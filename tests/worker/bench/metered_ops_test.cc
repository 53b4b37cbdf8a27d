#include "worker/bench/metered_ops.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "worker/bench/metered_backend.h"
#include "worker/bench/operands.h"

namespace phalanx {
namespace {

constexpr int64_t kRows = 3;
constexpr int64_t kHidden = 64;
constexpr int64_t kExperts = 4;

class MeteredOpsTest : public testing::Test {
 protected:
  Tensor Floats(int64_t rows, int64_t cols) {
    return *operands_.Floats(DType::kBf16, rows, cols);
  }
  PackedWeight Weights(int64_t count, WeightLayout layout) {
    std::vector<PackedWeight> all = *operands_.Weights(
        {.count = count, .rows = kHidden, .cols = kHidden, .layout = layout});
    return std::move(all.front());
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

  EXPECT_EQ(ops_.work().weight_bytes, kHidden * kHidden * 2);
  EXPECT_EQ(ops_.work().flops, 2 * kRows * kHidden * kHidden);
}

TEST_F(MeteredOpsTest, AProductOfNoRowsReadsNothing) {
  const PackedWeight w = Weights(1, WeightLayout::kPlain);
  ops_.Restart(/*timing=*/false);

  ops_.MatMul(Rows(Floats(kRows, kHidden), 0, 0), w,
              Rows(Floats(kRows, kHidden), 0, 0));

  EXPECT_EQ(ops_.work().weight_bytes, 0);
}

TEST_F(MeteredOpsTest, AnExpertIsReadOnceForAllItsTokens) {
  const PackedWeight up = Weights(kExperts, WeightLayout::kGateUp);
  const Tensor logits = *operands_.Zeros(DType::kF32, kRows, kExperts);
  const std::vector<float> choices = {1, 9, 0, 0, 1, 9, 0, 0, 0, 1, 0, 9};
  backend_.Upload(choices.data(), logits);
  const Routing routing{.expert = *operands_.Zeros(DType::kI32, kRows, 1),
                        .weight = *operands_.Zeros(DType::kF32, kRows, 1),
                        .offsets = *operands_.Zeros(DType::kI32, kExperts + 1),
                        .order = *operands_.Zeros(DType::kI32, kRows)};
  ops_.Restart(/*timing=*/false);

  ops_.Route(logits, true, routing);
  ops_.ExpertsGateUp(Floats(kRows, kHidden), up, routing,
                     Floats(kRows, kHidden / 2));

  EXPECT_EQ(ops_.work().experts, 2);
  EXPECT_EQ(ops_.work().weight_bytes, 2 * kHidden * kHidden * 2);
  EXPECT_EQ(ops_.work().flops, 2 * kRows * kHidden * kHidden);
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
