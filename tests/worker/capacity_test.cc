#include "worker/capacity.h"

#include <gtest/gtest.h>

#include <vector>

#include "common/units.h"
#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(ShareCpus, RanksGetDisjointShares) {
  const std::vector<int> allowed = {0, 1, 4, 5};
  EXPECT_THAT(ShareCpus(allowed, 0, 2, 0).cpus, ElementsAre(0, 1));
  EXPECT_THAT(ShareCpus(allowed, 1, 2, 0).cpus, ElementsAre(4, 5));
}

TEST(ShareCpus, WhatDoesNotDivideIsLeftOver) {
  const CpuShare share = ShareCpus({0, 1, 2, 3, 4}, 1, 2, 0);
  EXPECT_EQ(share.threads, 2);
  EXPECT_TRUE(share.spin);
  EXPECT_THAT(share.cpus, ElementsAre(2, 3));
}

TEST(ShareCpus, MoreRanksThanCpusNeitherSpinNorPin) {
  const CpuShare share = ShareCpus({0, 1}, 3, 4, 0);
  EXPECT_EQ(share.threads, 1);
  EXPECT_FALSE(share.spin);
  EXPECT_THAT(share.cpus, IsEmpty());
}

TEST(ShareCpus, TheFlagDecidesTheNumberOfThreads) {
  EXPECT_THAT(ShareCpus({0, 1, 2, 3}, 1, 2, 1).cpus, ElementsAre(1));
  const CpuShare share = ShareCpus({0, 1}, 0, 1, 8);
  EXPECT_EQ(share.threads, 8);
  EXPECT_FALSE(share.spin);
}

TEST(AllowedCpus, HasAtLeastOne) { EXPECT_FALSE(AllowedCpus().empty()); }

TEST(AvailableMemoryBytes, IsMoreThanNothing) {
  EXPECT_GT(AvailableMemoryBytes(), 0);
}

// One attention layer with one local KV head of 8: a block of 64 tokens takes
// 2 * 64 * 8 bf16 values, 2 KiB.
class PlanCapacityTest : public testing::Test {
 protected:
  PlanCapacityTest() {
    config_.max_position_embeddings = 1024;
    config_.vocab_size = 300;
    config_.head_dim = 8;
    config_.layer_types = {LayerKind::kLinearAttention,
                           LayerKind::kFullAttention};
    local_.kv_heads = 1;
    flags_.max_running = 4;
  }
  absl::StatusOr<SchedulerLimits> Plan(int64_t available = kGiB) const {
    return PlanCapacity(flags_, config_, local_, DType::kBf16, available);
  }

  WorkerConfig flags_;
  ModelConfig config_;
  LocalShape local_;
};

TEST_F(PlanCapacityTest, TakesTheModelsContextAndOneSlotPerSequence) {
  const auto limits = Plan();
  ASSERT_OK(limits);
  EXPECT_EQ(limits->max_model_len, 1024);
  EXPECT_EQ(limits->state_slots, 4);
  EXPECT_EQ(limits->step_tokens, flags_.prefill_chunk + 4);
  EXPECT_EQ(limits->vocab_size, 300);
}

TEST_F(PlanCapacityTest, HasBlocksForWholeContextsWhereMemoryAllows) {
  EXPECT_EQ(Plan()->kv_blocks, 4 * 1024 / 64);
}

TEST_F(PlanCapacityTest, TakesAQuarterOfTheMemoryOverAllRanks) {
  const int64_t block = 2 * 64 * 8 * 2;
  EXPECT_EQ(Plan(4 * 10 * block)->kv_blocks, 10);
  local_.tp_size = 2;
  EXPECT_EQ(Plan(4 * 10 * block)->kv_blocks, 5);
}

TEST_F(PlanCapacityTest, AlwaysHasOneBlock) {
  EXPECT_EQ(Plan(0)->kv_blocks, 1);
}

TEST_F(PlanCapacityTest, FlagsDecide) {
  flags_.kv_blocks = 17;
  flags_.max_model_len = 100;
  const auto limits = Plan();
  EXPECT_EQ(limits->kv_blocks, 17);
  EXPECT_EQ(limits->max_model_len, 100);
}

TEST_F(PlanCapacityTest, AContextAboveTheModelsIsRefusedWithBothNumbers) {
  flags_.max_model_len = 1025;
  EXPECT_THAT(Plan(), StatusIs(absl::StatusCode::kInvalidArgument,
                               "--max-model-len is 1025; the model's "
                               "max_position_embeddings is 1024"));
}

TEST_F(PlanCapacityTest, NamesALimitThatIsOutOfRange) {
  flags_.max_waiting = 0;
  EXPECT_THAT(Plan(), StatusIs(absl::StatusCode::kInvalidArgument,
                               HasSubstr("max_waiting is 0")));
}

}  // namespace
}  // namespace phalanx
