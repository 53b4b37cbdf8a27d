// How a budget is shared out between the pools: each rule alone, and all of
// them over random models.

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "absl/strings/str_cat.h"
#include "common/units.h"
#include "kernels/sequences.h"
#include "tests/support/status_matchers.h"
#include "worker/plan/memory_plan.h"
#include "worker/plan/presets.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr int64_t kExpert = 6 * kMiB;            // Whole, of the preset.
constexpr int64_t kBlock = 64 * int64_t{20480};  // At TP 1.

// The 35B preset in offload at TP 1, for 2 contexts of 64 blocks.
class BudgetTest : public testing::Test {
 protected:
  BudgetTest() {
    request_.moe_mode = MoeMode::kOffload;
    request_.max_model_len = 4096;
    request_.least_kv_tokens = 128;
    request_.most_kv_tokens = 2 * 4096;
    least_ = LeastBudgetBytes(config_, request_).value();
  }
  MemoryPlan Plan(int64_t beyond_least) {
    request_.budget_bytes = least_ + beyond_least;
    return PlanMemory(config_, request_).value();
  }

  const ModelConfig config_ = PresetConfig("qwen3.6-35b-a3b").value();
  PlanRequest request_;
  int64_t least_ = 0;
};

TEST_F(BudgetTest, TheLeastHasALayersExpertsAndTheLeastBlocks) {
  const MemoryPlan plan = Plan(0);

  EXPECT_EQ(plan.total(), least_);
  EXPECT_EQ(plan.expert_slots, 256);
  EXPECT_EQ(plan.expert_slots_bytes, 256 * kExpert);
  EXPECT_EQ(plan.kv_tokens, 128);
}

TEST_F(BudgetTest, BelowTheLeastIsRefusedWithTheLeast) {
  request_.budget_bytes = least_ - 1;

  EXPECT_THAT(PlanMemory(config_, request_),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr(": 1 B too little. What would fit: "),
                             HasSubstr(absl::StrCat("--memory-budget at least ",
                                                    least_, " (")))));
}

TEST_F(BudgetTest, OneWholeContextComesFirst) {
  const MemoryPlan plan = Plan(62 * kBlock);

  EXPECT_EQ(plan.kv_tokens, 4096);
  EXPECT_EQ(plan.expert_slots, 256);
  EXPECT_EQ(plan.longest_context, 4096);
}

TEST_F(BudgetTest, ThenSlotsForTwoLayers) {
  const MemoryPlan plan = Plan(62 * kBlock + 256 * kExpert);

  EXPECT_EQ(plan.kv_tokens, 4096);
  EXPECT_EQ(plan.expert_slots, 512);
}

TEST_F(BudgetTest, ThenTheOtherContexts) {
  const MemoryPlan plan = Plan(62 * kBlock + 256 * kExpert + 64 * kBlock);

  EXPECT_EQ(plan.kv_tokens, 8192);
  EXPECT_EQ(plan.expert_slots, 512);
}

TEST_F(BudgetTest, ThenSlotsForEveryExpertAndNoMore) {
  EXPECT_EQ(Plan(126 * kBlock + 256 * kExpert + kExpert).expert_slots, 513);
  const MemoryPlan plan = Plan(1000 * kGiB);

  EXPECT_EQ(plan.expert_slots, 40 * 256);
  EXPECT_EQ(plan.kv_tokens, 8192);
}

TEST_F(BudgetTest, WhatEndsAPoolsTurnGoesToNoOther) {
  const MemoryPlan plan = Plan(62 * kBlock + kExpert + 2 * kBlock);

  EXPECT_EQ(plan.expert_slots, 257);
  EXPECT_EQ(plan.kv_tokens, 4096);
}

TEST_F(BudgetTest, FixedSlotsLeaveTheRestToTheKvCache) {
  request_.expert_slots = 300;
  least_ = LeastBudgetBytes(config_, request_).value();

  EXPECT_EQ(Plan(0).expert_slots, 300);
  EXPECT_EQ(Plan(1000 * kGiB).expert_slots, 300);
}

TEST_F(BudgetTest, FixedSlotsThatAreTooManyAreRefusedWithHowManyWouldFit) {
  request_.expert_slots = 300;
  request_.budget_bytes = least_ + 10 * kExpert;

  EXPECT_THAT(PlanMemory(config_, request_),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("--expert-slots at most 266; or")));
}

TEST_F(BudgetTest, FixedSlotsAreAtLeastALayersAndAtMostAllExperts) {
  request_.budget_bytes = kGiB;
  request_.expert_slots = 255;
  EXPECT_THAT(PlanMemory(config_, request_),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("expert_slots is 255"),
                             HasSubstr("at least 256"))));

  request_.expert_slots = 10241;
  EXPECT_THAT(PlanMemory(config_, request_),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("expert_slots is 10241"),
                             HasSubstr("at most 10240"))));
}

TEST_F(BudgetTest, SlotsAreOfNoEffectWhereExpertsAreResident) {
  request_.moe_mode = MoeMode::kResident;
  request_.expert_slots = 1;

  EXPECT_EQ(Plan(100 * kGiB).expert_slots, 0);
}

TEST_F(BudgetTest, FewerSequencesAreARemedyWhereTheirStatesFit) {
  request_.max_running = 1;
  const int64_t one = LeastBudgetBytes(config_, request_).value();
  request_.max_running = 3;
  request_.budget_bytes = one;
  EXPECT_THAT(PlanMemory(config_, request_),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("--max-running at most 1; or")));

  request_.budget_bytes = one - 1;
  EXPECT_THAT(PlanMemory(config_, request_),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       Not(HasSubstr("--max-running"))));
}

TEST_F(BudgetTest, OffloadIsNoRemedyWhereItDoesNotFitEither) {
  request_.moe_mode = MoeMode::kResident;
  request_.budget_bytes = least_;
  EXPECT_THAT(PlanMemory(config_, request_),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("--moe-mode offload")));

  request_.budget_bytes = least_ - 1;
  EXPECT_THAT(PlanMemory(config_, request_),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       Not(HasSubstr("--moe-mode offload"))));
}

TEST_F(BudgetTest, TheWorkspaceAndTheCommunicatorArePartOfIt) {
  request_.tp_size = 2;
  request_.communicator_bytes = 0;
  const int64_t bare = LeastBudgetBytes(config_, request_).value();
  request_.workspace_bytes = 5 * kMiB;
  request_.communicator_bytes = 2 * kMiB;
  least_ = LeastBudgetBytes(config_, request_).value();

  EXPECT_EQ(least_, bare + 7 * kMiB);
  EXPECT_EQ(Plan(0).workspace_bytes, 5 * kMiB);
  EXPECT_EQ(Plan(0).communicator_bytes, 2 * kMiB);
}

TEST_F(BudgetTest, AModelWithoutExpertsIsNotOffloaded) {
  ModelConfig dense = config_;
  dense.num_experts = 0;
  request_.budget_bytes = 100 * kGiB;

  EXPECT_THAT(PlanMemory(dense, request_),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("moe_mode is offload; must be resident")));
}

TEST_F(BudgetTest, AModelWithoutAttentionHasEveryBlockForNothing) {
  ModelConfig recurrent = config_;
  std::fill(recurrent.layer_types.begin(), recurrent.layer_types.end(),
            LayerKind::kLinearAttention);
  request_.budget_bytes = LeastBudgetBytes(recurrent, request_).value();

  const auto plan = PlanMemory(recurrent, request_);

  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->kv_cache_bytes, 0);
  EXPECT_EQ(plan->kv_tokens, 8192);
}

TEST_F(BudgetTest, AFieldOutOfRangeIsNamed) {
  request_.budget_bytes = -1;
  EXPECT_THAT(PlanMemory(config_, request_),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("memory_budget is -1 bytes; must be 1")));
  request_.budget_bytes = kGiB;
  request_.workspace_bytes = -1;
  EXPECT_THAT(PlanMemory(config_, request_),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("workspace_bytes is -1; must be 0..")));
  request_.workspace_bytes = 0;
  request_.most_kv_tokens = int64_t{1} << 50;
  EXPECT_THAT(PlanMemory(config_, request_),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("most_kv_tokens is")));
}

// Random models, requests and budgets.

class Dice {
 public:
  explicit Dice(uint32_t seed) : random_(seed) {}
  // Not a distribution of the library: those differ between libraries.
  int64_t Roll(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(
                       random_() % static_cast<uint64_t>(most - least + 1));
  }

 private:
  std::mt19937_64 random_;
};

ModelConfig RandomModel(Dice& dice) {
  ModelConfig c = PresetConfig("qwen3.6-35b-a3b").value();
  c.hidden_size = 64 * dice.Roll(1, 8);
  c.vocab_size = dice.Roll(300, 5000);
  c.max_position_embeddings = dice.Roll(64, 20000);
  c.layer_types.clear();
  for (int64_t i = dice.Roll(1, 12); i > 0; --i)
    c.layer_types.push_back(dice.Roll(0, 3) == 0 ? LayerKind::kFullAttention
                                                 : LayerKind::kLinearAttention);
  c.num_experts = dice.Roll(1, 32);
  c.num_experts_per_tok = 1;
  c.moe_intermediate_size = 8 * dice.Roll(1, 40);
  c.shared_expert_intermediate_size = 8 * dice.Roll(1, 40);
  return c;
}

PlanRequest RandomRequest(const ModelConfig& config, Dice& dice) {
  PlanRequest request;
  request.tp_size = 1 << dice.Roll(0, 3);
  request.moe_mode =
      dice.Roll(0, 2) > 0 ? MoeMode::kOffload : MoeMode::kResident;
  request.bank =
      dice.Roll(0, 1) > 0 ? OffloadBank::kFull : OffloadBank::kSharded;
  if (dice.Roll(0, 1) > 0) request.weights.format = HeldFormat::kFp8;
  request.max_running = dice.Roll(1, 20);
  request.communicator_bytes = dice.Roll(0, kMiB);
  request.workspace_bytes = dice.Roll(0, kMiB);
  if (dice.Roll(0, 3) == 0)
    request.expert_slots =
        dice.Roll(config.num_experts, config.num_experts * config.num_layers());
  if (dice.Roll(0, 1) > 0) request.max_model_len = dice.Roll(1, 20000);
  if (dice.Roll(0, 1) > 0) request.least_kv_tokens = dice.Roll(1, 20000);
  if (dice.Roll(0, 1) > 0)
    request.most_kv_tokens =
        std::max(request.least_kv_tokens, int64_t{128}) + dice.Roll(0, 90000);
  return request;
}

class RandomBudgets : public testing::TestWithParam<uint32_t> {
 protected:
  static constexpr int kCases = 300;
  Dice dice_{GetParam()};
};

TEST_P(RandomBudgets, APlanKeepsToItsBudgetAndItsBounds) {
  for (int i = 0; i < kCases; ++i) {
    const ModelConfig config = RandomModel(dice_);
    PlanRequest request = RandomRequest(config, dice_);
    request.budget_bytes = LeastBudgetBytes(config, request).value() +
                           dice_.Roll(0, int64_t{1} << dice_.Roll(1, 34));

    const auto plan = PlanMemory(config, request);

    ASSERT_THAT(plan, IsOk());
    EXPECT_EQ(plan->budget_bytes, request.budget_bytes);
    EXPECT_LE(plan->total(), request.budget_bytes);
    EXPECT_EQ(plan->kv_tokens % kKvBlockTokens, 0);
    EXPECT_GE(plan->kv_tokens, request.least_kv_tokens);
    if (request.most_kv_tokens > 0) {
      EXPECT_LE(plan->kv_tokens,
                RoundUp(request.most_kv_tokens, kKvBlockTokens));
    }
    EXPECT_LE(plan->longest_context, plan->kv_tokens);
    const int64_t all = config.num_experts * config.num_layers();
    const bool offload = request.moe_mode == MoeMode::kOffload;
    EXPECT_GE(plan->expert_slots, offload ? config.num_experts : 0);
    EXPECT_LE(plan->expert_slots, offload ? all : 0);
    if (offload && request.expert_slots > 0) {
      EXPECT_EQ(plan->expert_slots, request.expert_slots);
    }
  }
}

TEST_P(RandomBudgets, NothingShrinksWhenTheBudgetGrows) {
  for (int i = 0; i < kCases; ++i) {
    const ModelConfig config = RandomModel(dice_);
    PlanRequest request = RandomRequest(config, dice_);
    request.budget_bytes = LeastBudgetBytes(config, request).value();
    MemoryPlan before = PlanMemory(config, request).value();
    for (int step = 0; step < 12; ++step) {
      request.budget_bytes += dice_.Roll(0, int64_t{1} << dice_.Roll(1, 26));

      const MemoryPlan after = PlanMemory(config, request).value();

      EXPECT_GE(after.kv_tokens, before.kv_tokens);
      EXPECT_GE(after.expert_slots, before.expert_slots);
      EXPECT_GE(after.total(), before.total());
      EXPECT_EQ(after.state_slots, before.state_slots);
      before = after;
    }
  }
}

TEST_P(RandomBudgets, TheLeastBudgetIsExact) {
  for (int i = 0; i < kCases; ++i) {
    const ModelConfig config = RandomModel(dice_);
    PlanRequest request = RandomRequest(config, dice_);
    request.budget_bytes = LeastBudgetBytes(config, request).value() - 1;

    EXPECT_THAT(PlanMemory(config, request),
                StatusIs(absl::StatusCode::kResourceExhausted,
                         HasSubstr(": 1 B too little")));
  }
}

TEST_P(RandomBudgets, TheDeviceMemoryOfARefusalIsEnough) {
  for (int i = 0; i < kCases; ++i) {
    const ModelConfig config = RandomModel(dice_);
    PlanRequest request = RandomRequest(config, dice_);
    request.memory_ratio = static_cast<double>(dice_.Roll(1, 100)) / 100;
    request.device_bytes = 1;
    const absl::Status refused = PlanMemory(config, request).status();
    const std::string text(refused.message());
    const std::string flag = "--device-memory at least ";
    ASSERT_THAT(text, HasSubstr(flag));

    request.device_bytes =
        std::stoll(text.substr(text.find(flag) + flag.size()));
    EXPECT_THAT(PlanMemory(config, request), IsOk());
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomBudgets, testing::Values(1, 2, 3));

}  // namespace
}  // namespace phalanx
