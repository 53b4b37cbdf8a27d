#include "worker/rank_plan.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "common/units.h"
#include "kernels/sequences.h"
#include "tests/support/status_matchers.h"
#include "worker/engine/model_runner.h"
#include "worker/engine/sampler.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr int64_t kContext = 8192;  // Of the small model.

// Of the model that the repository carries, 16 experts in each of 8 layers.
class PlanRankTest : public testing::Test {
 protected:
  PlanRankTest() : config_(LoadModelConfig(kModel).value()) {
    resources_.default_budget_bytes = kGiB;
    flags_.max_running = 4;
  }

  absl::StatusOr<RankPlan> Plan() const {
    return PlanRank(flags_, config_, resources_);
  }
  // The least budget of a mode, with all flags as they are.
  int64_t Needed(const std::string& mode) const {
    WorkerConfig flags = flags_;
    flags.moe_mode = mode;
    flags.memory_budget = kGiB;
    return PlanRank(flags, config_, resources_)->needed_bytes;
  }

  static constexpr char kModel[] = SOURCE_ROOT "/deploy/models/phalanx-mini";
  const ModelConfig config_;
  RankResources resources_;
  WorkerConfig flags_;
};

TEST_F(PlanRankTest, TakesTheModelsContextAndTheFlagsBounds) {
  flags_.max_waiting = 9;

  const auto plan = Plan();

  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->limits.max_running, 4);
  EXPECT_EQ(plan->limits.max_waiting, 9);
  EXPECT_EQ(plan->limits.max_model_len, kContext);
  EXPECT_EQ(plan->limits.step_tokens, flags_.prefill_chunk + 4);
  EXPECT_EQ(plan->limits.vocab_size, config_.vocab_size);
}

TEST_F(PlanRankTest, ThePoolsAreThoseOfThePlan) {
  const auto plan = Plan();

  EXPECT_EQ(plan->limits.state_slots, StateSlots(4));
  EXPECT_EQ(plan->limits.state_slots, plan->memory.state_slots);
  EXPECT_EQ(plan->limits.kv_blocks * kKvBlockTokens, plan->memory.kv_tokens);
}

TEST_F(PlanRankTest, TheLeastBudgetHasSlotsForSnapshots) {
  flags_.moe_mode = "resident";
  flags_.max_running = 1;
  flags_.memory_budget = Needed("resident");

  EXPECT_EQ(Plan()->limits.state_slots, 1 + 8);
}

TEST_F(PlanRankTest, HasBlocksForWholeContextsAndNoMore) {
  EXPECT_EQ(Plan()->limits.kv_blocks, 4 * kContext / kKvBlockTokens);
}

TEST_F(PlanRankTest, AContextThatEndsInABlockTakesAllOfIt) {
  flags_.max_model_len = 65;

  EXPECT_EQ(Plan()->limits.kv_blocks, 4 * 2);
}

TEST_F(PlanRankTest, KvBlocksAreExactlyThoseOfTheFlag) {
  for (const int64_t blocks : {1, 17, 5000}) {
    flags_.kv_blocks = blocks;
    EXPECT_EQ(Plan()->limits.kv_blocks, blocks);
  }
}

TEST_F(PlanRankTest, KvBlocksThatDoNotFitAreRefusedWithHowManyWould) {
  flags_.moe_mode = "resident";
  flags_.kv_blocks = 100;
  const int64_t needed = Needed("resident");
  flags_.memory_budget = needed - 1;

  EXPECT_THAT(Plan(), StatusIs(absl::StatusCode::kResourceExhausted,
                               HasSubstr("--kv-blocks at most 99; or")));
}

TEST_F(PlanRankTest, AContextThatWasAskedForHasRoomOrIsRefused) {
  flags_.moe_mode = "resident";
  flags_.max_model_len = 640;
  const int64_t needed = Needed("resident");
  flags_.memory_budget = needed;
  ASSERT_THAT(Plan(), IsOk());
  EXPECT_EQ(Plan()->limits.kv_blocks, 10);

  flags_.memory_budget = needed - 1;
  EXPECT_THAT(Plan(), StatusIs(absl::StatusCode::kResourceExhausted,
                               HasSubstr("--max-model-len at most 576; or")));
}

TEST_F(PlanRankTest, TheModelsOwnContextNeedNotFit) {
  flags_.moe_mode = "resident";
  flags_.memory_budget = Needed("resident");

  EXPECT_EQ(Plan()->limits.kv_blocks, 2);
}

TEST_F(PlanRankTest, AStepHasLogitsForAllThatRunsAndForPartsOfPrompts) {
  EXPECT_EQ(Plan()->limits.logit_rows, 32);

  flags_.max_running = 40;
  EXPECT_EQ(Plan()->limits.logit_rows, 40);
}

TEST_F(PlanRankTest, AStepHasNoMoreLogitsThanRows) {
  flags_.prefill_chunk = 3;

  EXPECT_EQ(Plan()->limits.logit_rows, 7);
}

TEST_F(PlanRankTest, TheWorkspaceIsThatOfTheRunnerAndTheSampler) {
  const auto plan = Plan();
  const StepPlanLimits steps = PlanLimits(plan->limits);

  EXPECT_EQ(plan->memory.workspace_bytes,
            ModelRunner::DeviceWorkspaceBytes(config_, plan->local, steps,
                                              DType::kBf16) +
                ModelRunner::HostWorkspaceBytes(plan->local, steps) +
                Sampler::Bytes(config_.vocab_size));
}

TEST_F(PlanRankTest, TheCommunicatorIsTheResourcesAboveOneRank) {
  resources_.communicator_bytes = 2 * kMiB;
  EXPECT_EQ(Plan()->memory.communicator_bytes, 0);

  flags_.tp_size = 2;
  EXPECT_EQ(Plan()->memory.communicator_bytes, 2 * kMiB);
}

TEST_F(PlanRankTest, TheFlagsBudgetGoesBeforeTheMeasuredOne) {
  EXPECT_EQ(Plan()->memory.budget_bytes, kGiB);

  flags_.memory_budget = kGiB / 2;
  EXPECT_EQ(Plan()->memory.budget_bytes, kGiB / 2);
}

TEST_F(PlanRankTest, AutoIsResidentWhereThatFits) {
  flags_.memory_budget = Needed("resident");

  const auto plan = Plan();

  EXPECT_EQ(plan->memory.moe_mode, MoeMode::kResident);
  EXPECT_EQ(plan->needed_bytes, flags_.memory_budget);
  EXPECT_THAT(plan->why, HasSubstr("fits the budget"));
}

TEST_F(PlanRankTest, AutoIsOffloadOneByteBelowThat) {
  const int64_t needed = Needed("resident");
  flags_.memory_budget = needed - 1;

  const auto plan = Plan();

  EXPECT_EQ(plan->memory.moe_mode, MoeMode::kOffload);
  EXPECT_EQ(plan->needed_bytes, needed);
  EXPECT_THAT(plan->why, HasSubstr("exceeds the budget"));
}

TEST_F(PlanRankTest, AutoRefusesWithBothModesWhereNeitherFits) {
  flags_.memory_budget = Needed("offload") - 1;

  EXPECT_THAT(
      Plan(),
      StatusIs(absl::StatusCode::kResourceExhausted,
               AllOf(HasSubstr("neither fits"), HasSubstr("moe_mode resident:"),
                     HasSubstr("moe_mode offload: "),
                     HasSubstr(absl::StrCat("--memory-budget at least ",
                                            Needed("offload"))))));
}

TEST_F(PlanRankTest, AModeThatIsAskedForIsNotReplaced) {
  flags_.memory_budget = Needed("resident") - 1;
  flags_.moe_mode = "resident";
  EXPECT_THAT(Plan(), StatusIs(absl::StatusCode::kResourceExhausted,
                               HasSubstr("--moe-mode offload; or")));

  flags_.memory_budget = kGiB;
  flags_.moe_mode = "offload";
  EXPECT_EQ(Plan()->memory.moe_mode, MoeMode::kOffload);
  EXPECT_EQ(Plan()->why, "asked for");
}

TEST_F(PlanRankTest, AFullBankMeansWholeExperts) {
  flags_.tp_size = 4;
  flags_.moe_mode = "offload";
  flags_.offload_bank = "full";

  EXPECT_EQ(Plan()->local.expert_width, config_.moe_intermediate_size);
  EXPECT_EQ(Plan()->memory.bank, OffloadBank::kFull);
  flags_.offload_bank = "sharded";
  EXPECT_EQ(Plan()->local.expert_width, config_.moe_intermediate_size / 4);
}

TEST_F(PlanRankTest, ABankIsOfNoEffectWhereExpertsAreResident) {
  flags_.tp_size = 4;
  flags_.offload_bank = "full";

  EXPECT_EQ(Plan()->local.expert_width, config_.moe_intermediate_size / 4);
}

TEST_F(PlanRankTest, AFullBankNeedsALargerWorkspace) {
  ModelConfig wide = config_;
  wide.moe_intermediate_size = 2048;
  flags_.tp_size = 4;
  flags_.moe_mode = "offload";
  const auto sharded = PlanRank(flags_, wide, resources_);
  flags_.offload_bank = "full";

  const auto full = PlanRank(flags_, wide, resources_);

  EXPECT_GT(full->memory.workspace_bytes, sharded->memory.workspace_bytes);
}

TEST_F(PlanRankTest, OffloadHoldsEveryExpertWhereTheBudgetAllows) {
  flags_.moe_mode = "offload";

  EXPECT_EQ(Plan()->memory.expert_slots, 8 * 16);
}

TEST_F(PlanRankTest, ExpertSlotsAreThoseOfTheFlag) {
  flags_.moe_mode = "offload";
  flags_.expert_slots = 17;

  EXPECT_EQ(Plan()->memory.expert_slots, 17);
}

TEST_F(PlanRankTest, SlotsForLessThanALayerAreRefusedWithBothNumbers) {
  flags_.moe_mode = "offload";
  flags_.expert_slots = 15;

  EXPECT_THAT(Plan(), StatusIs(absl::StatusCode::kInvalidArgument,
                               HasSubstr("expert_slots is 15; must be at least "
                                         "16, the model's num_experts")));
}

TEST_F(PlanRankTest, AContextAboveTheModelsIsRefusedWithBothNumbers) {
  flags_.max_model_len = kContext + 1;

  EXPECT_THAT(Plan(), StatusIs(absl::StatusCode::kInvalidArgument,
                               "--max-model-len is 8193; the model's "
                               "max_position_embeddings is 8192"));
}

TEST_F(PlanRankTest, NamesALimitThatIsOutOfRange) {
  flags_.max_waiting = 0;

  EXPECT_THAT(Plan(), StatusIs(absl::StatusCode::kInvalidArgument,
                               HasSubstr("max_waiting is 0")));
}

TEST_F(PlanRankTest, EveryRankPlansAlike) {
  flags_.tp_size = 8;
  const auto first = Plan();
  flags_.rank = 7;
  const auto last = Plan();

  EXPECT_EQ(last->memory.total(), first->memory.total());
  EXPECT_EQ(SlicePlan(*last), SlicePlan(*first));
}

TEST_F(PlanRankTest, TheSlicePlanTellsModesAndBanksApart) {
  const auto words = [&](const char* mode, const char* bank) {
    flags_.moe_mode = mode;
    flags_.offload_bank = bank;
    return SlicePlan(*Plan());
  };

  EXPECT_THAT(words("resident", "full"),
              AllOf(HasSubstr("moe_mode resident,"), Not(HasSubstr("full"))));
  EXPECT_THAT(words("offload", "full"), HasSubstr("moe_mode offload full,"));
  EXPECT_THAT(words("offload", "sharded"),
              HasSubstr("moe_mode offload sharded,"));
}

TEST_F(PlanRankTest, TheSlicePlanIsThatOfTheModeThatAutoChose) {
  flags_.moe_mode = "resident";
  const std::string asked = SlicePlan(*Plan());
  flags_.moe_mode = "auto";

  EXPECT_EQ(SlicePlan(*Plan()), asked);
}

}  // namespace
}  // namespace phalanx
