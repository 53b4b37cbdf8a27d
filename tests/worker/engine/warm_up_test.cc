#include "worker/engine/warm_up.h"

#include <gtest/gtest.h>

#include <thread>

#include "common/reason.h"
#include "tests/support/status_matchers.h"
#include "tests/support/tp_group.h"
#include "worker/collective/local.h"

namespace phalanx {
namespace {

using testing::HasSubstr;

std::unique_ptr<TpGroup> MoeAlone() {
  return TpGroup::MustCreate({.model_dir = GOLDEN_DIR "/models/moe",
                              .tp_size = 1,
                              .backends = BestCpuBackends(),
                              .limits = LaneLimits(1, 64)});
}

StepPlanLimits Limits(int64_t tokens, int64_t model_len, int64_t blocks) {
  return {.max_sequences = 2,
          .max_tokens = tokens,
          .max_logit_rows = 2,
          .max_model_len = model_len,
          .vocab_size = 10,
          .state_slots = 2,
          .kv_blocks = blocks};
}

TEST(WarmUpPlans, ObeyTheLimitsTheyAreMadeFor) {
  for (const StepPlanLimits& limits :
       {Limits(100, 300, 20), Limits(512, 300, 20), Limits(512, 300, 2),
        Limits(2, 300, 1), Limits(512, 64, 9), Limits(512, 2, 9)}) {
    for (const StepPlan& plan : WarmUpPlans(limits, 3)) {
      EXPECT_EQ(plan.kind, StepKind::kWarmUp);
      EXPECT_EQ(plan.epoch, 3u);
      EXPECT_EQ(plan.logits_count(), 1);
      EXPECT_OK(Decode(Encode(plan), limits));
    }
  }
}

TEST(WarmUpPlans, PrefillAllThatAStepHoldsThenDecode) {
  const auto plans = WarmUpPlans(Limits(100, 300, 20), 1);
  ASSERT_EQ(plans.size(), 2u);
  EXPECT_EQ(plans[0].token_count(), 100);
  EXPECT_EQ(plans[1].token_count(), 1);
  EXPECT_EQ(plans[1].sequences[0].past, 100);
}

TEST(WarmUpPlans, CopyABlockAndAStateWhereThereIsRoomForTwo) {
  const StepPlan plan = WarmUpPlans(Limits(100, 300, 20), 1)[1];
  EXPECT_EQ(plan.block_copies, (std::vector<CacheCopy>{{1, 2}}));
  EXPECT_EQ(plan.sequences[0].block_table, (std::vector<int32_t>{0, 2}));
  EXPECT_EQ(plan.state_restores, (std::vector<CacheCopy>{{0, 1}}));
  EXPECT_EQ(plan.state_saves, (std::vector<CacheCopy>{{1, 0}}));
  EXPECT_EQ(plan.sequences[0].state_slot, 1);
}

TEST(WarmUpPlans, RunOnAModel) {
  auto group = MoeAlone();
  for (const StepPlan& plan : WarmUpPlans(group->limits(), 1))
    EXPECT_OK(group->Run(plan));
}

TEST(CompareLogits, OfOneGroupAreEqual) {
  auto group = TpGroup::MustCreate({.model_dir = GOLDEN_DIR "/models/moe",
                                    .tp_size = 4,
                                    .backends = BestCpuBackends(),
                                    .limits = LaneLimits(1, 64)});
  ASSERT_OK(group->Run(WarmUpPlans(group->limits(), 1)[0]));
  for (const absl::Status& status : group->OnEveryRank([&](int r) {
         return CompareLogits(*group->rank(r).runner, *group->rank(r).comm);
       }))
    EXPECT_OK(status);
}

// Two whole models, one with a weight that memory has damaged, meet as if they
// were the ranks of one group.
TEST(CompareLogits, NamesTheRankThatWentAstray) {
  auto sound = MoeAlone();
  auto broken = MoeAlone();
  broken->rank(0).weights.norm.row<float>(0)[5] += 0.5f;
  for (TpGroup* group : {sound.get(), broken.get()})
    ASSERT_OK(group->Run(WarmUpPlans(group->limits(), 1)[0]));

  auto ranks = CreateLocalGroup(2);
  absl::Status seen[2];
  std::thread peer(
      [&] { seen[1] = CompareLogits(*broken->rank(0).runner, *ranks[1]); });
  seen[0] = CompareLogits(*sound->rank(0).runner, *ranks[0]);
  peer.join();
  for (const absl::Status& status : seen) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kInternal,
                                 HasSubstr("differ from rank 0's on ranks 1")));
    EXPECT_EQ(ReasonOf(status).word, "RANK_DIVERGED");
  }
}

}  // namespace
}  // namespace phalanx
