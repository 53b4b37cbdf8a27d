#include "worker/plan/memory_plan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "common/units.h"
#include "kernels/sequences.h"
#include "tests/support/status_matchers.h"
#include "worker/plan/presets.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// 94.4 GiB.
constexpr int64_t kCard = int64_t{101361228185};

ModelConfig Preset35B() { return PresetConfig("qwen3.6-35b-a3b").value(); }

double GiB(int64_t bytes) {
  return static_cast<double>(bytes) / static_cast<double>(kGiB);
}

// The table of model_spec.md 5.3: a row for each way of running.
struct Row {
  int tp_size;
  MoeMode mode;
  OffloadBank bank;
  double kv_gib;
  double kv_mega_tokens;
};

class KnownTable : public testing::TestWithParam<Row> {
 protected:
  KnownTable() {
    request_.tp_size = GetParam().tp_size;
    request_.moe_mode = GetParam().mode;
    request_.bank = GetParam().bank;
    request_.device_bytes = kCard;
  }
  PlanRequest request_;
};

TEST_P(KnownTable, IsReproduced) {
  const auto plan = PlanMemory(Preset35B(), request_);

  ASSERT_THAT(plan, IsOk());
  EXPECT_NEAR(GiB(plan->kv_cache_bytes), GetParam().kv_gib, 0.6);
  EXPECT_NEAR(static_cast<double>(plan->kv_tokens) / 1e6,
              GetParam().kv_mega_tokens, 0.01 * GetParam().kv_mega_tokens);
  EXPECT_EQ(plan->state_slots, 25);
  EXPECT_EQ(plan->longest_context, 262144);
}

TEST_P(KnownTable, IsNearerYetWithTheShareOfTheCommunicator) {
  const auto plan = PlanMemory(Preset35B(), request_);

  // A full bank keeps shared experts whole, which the known table does not.
  EXPECT_NEAR(GiB(plan->kv_cache_bytes), GetParam().kv_gib,
              request_.bank == OffloadBank::kFull ? 0.25 : 0.11);
}

TEST_P(KnownTable, FillsTheBudgetToLessThanOneBlock) {
  const auto plan = PlanMemory(Preset35B(), request_);

  const int64_t communicator = GetParam().tp_size > 1 ? 512 * kMiB : 0;
  const int64_t budget =
      communicator + static_cast<int64_t>(std::floor(
                         0.9 * static_cast<double>(kCard - communicator)));
  const int64_t block = plan->kv_cache_bytes / plan->kv_tokens * kKvBlockTokens;
  EXPECT_EQ(plan->budget_bytes, budget);
  EXPECT_EQ(plan->communicator_bytes, communicator);
  EXPECT_LE(plan->total(), budget);
  EXPECT_GT(plan->total() + block, budget);
}

constexpr auto kResident = MoeMode::kResident;
constexpr auto kOffload = MoeMode::kOffload;
constexpr auto kFull = OffloadBank::kFull;
constexpr auto kSharded = OffloadBank::kSharded;

INSTANTIATE_TEST_SUITE_P(
    Rows, KnownTable,
    testing::Values(Row{1, kOffload, kFull, 75.9, 3.98},
                    Row{2, kOffload, kFull, 78.5, 8.23},
                    Row{4, kOffload, kFull, 80.0, 8.39},
                    Row{1, kOffload, kSharded, 75.9, 3.98},
                    Row{2, kOffload, kSharded, 78.5, 8.23},
                    Row{4, kOffload, kSharded, 80.0, 8.39},
                    Row{1, kResident, kSharded, 19.0, 0.996},
                    Row{2, kResident, kSharded, 51.5, 5.40},
                    Row{4, kResident, kSharded, 68.0, 7.13}));

TEST(PlanMemory, ALargerCardHoldsWhatTheSpecificationSays) {
  const auto plan = PlanMemory(Preset35B(), {.device_bytes = 139 * kGiB});

  EXPECT_NEAR(GiB(plan->kv_cache_bytes), 59, 0.1);
  EXPECT_NEAR(static_cast<double>(plan->kv_tokens) / 1e6, 3.1, 0.05);
}

TEST(PlanMemory, TheCommunicatorIsTheHalfGibibyteBetweenOneRankAndTwo) {
  PlanRequest request = {.tp_size = 2, .device_bytes = kCard};
  const auto with = PlanMemory(Preset35B(), request);
  request.communicator_bytes = 0;
  const auto without = PlanMemory(Preset35B(), request);

  EXPECT_NEAR(GiB(without->kv_cache_bytes - with->kv_cache_bytes), 0.45, 0.01);
}

TEST(PlanMemory, OneRankHasNoCommunicator) {
  PlanRequest request = {.device_bytes = kCard};
  const auto plan = PlanMemory(Preset35B(), request);
  request.communicator_bytes = 0;

  EXPECT_EQ(PlanMemory(Preset35B(), request)->kv_tokens, plan->kv_tokens);
}

TEST(PlanMemory, ResidentExpertsAreDividedAndOffloadedOnesAreNotOnTheCard) {
  PlanRequest request = {.tp_size = 4, .device_bytes = kCard};
  const auto resident = PlanMemory(Preset35B(), request);
  request.moe_mode = kOffload;
  const auto offload = PlanMemory(Preset35B(), request);

  EXPECT_EQ(resident->experts_bytes, 15 * kGiB);
  EXPECT_EQ(resident->expert_slots_bytes, 0);
  EXPECT_EQ(resident->bank_bytes, 0);
  EXPECT_EQ(offload->experts_bytes, 0);
  EXPECT_EQ(offload->bank_bytes, 60 * kGiB);
}

TEST(PlanMemory, AShardedBankHasTheSameBytesOfSlotsAndMoreSlots) {
  PlanRequest request = {.tp_size = 4, .moe_mode = kOffload};
  request.device_bytes = kCard;
  const auto sharded = PlanMemory(Preset35B(), request);
  request.bank = kFull;
  const auto full = PlanMemory(Preset35B(), request);

  EXPECT_EQ(full->expert_slots_bytes, 3 * kGiB);
  EXPECT_EQ(sharded->expert_slots_bytes, 3 * kGiB);
  EXPECT_EQ(full->expert_slots, 512);
  EXPECT_EQ(sharded->expert_slots, 2048);
}

TEST(PlanMemory, AFullBankKeepsTheSharedExpertWhole) {
  PlanRequest request = {.tp_size = 4, .moe_mode = kOffload};
  request.device_bytes = kCard;
  const auto sharded = PlanMemory(Preset35B(), request);
  request.bank = kFull;
  const auto full = PlanMemory(Preset35B(), request);

  EXPECT_EQ(full->non_expert_bytes - sharded->non_expert_bytes,
            251658240 - 62914560);
}

TEST(PlanMemory, ThereAreNeverMoreSlotsThanExperts) {
  ModelConfig config = Preset35B();
  config.layer_types.resize(4);
  PlanRequest request = {.tp_size = 8, .moe_mode = kOffload};
  request.device_bytes = kCard;

  EXPECT_EQ(PlanMemory(config, request)->expert_slots, 4 * 256);
}

TEST(PlanMemory, Fp8HalvesExpertsSoThatAsManyBytesHoldTwiceTheSlots) {
  PlanRequest request = {.device_bytes = kCard};
  request.weights.format = HeldFormat::kFp8;
  const auto resident = PlanMemory(Preset35B(), request);
  request.moe_mode = kOffload;
  const auto offload = PlanMemory(Preset35B(), request);

  EXPECT_EQ(resident->experts_bytes, 30 * kGiB + 40 * 256 * 384);
  EXPECT_EQ(offload->expert_slots, 3 * kGiB / (3 * kMiB + 384));
}

TEST(PlanMemory, SlotsOfASmallerFormatAreMoreInTheSameBytes) {
  PlanRequest request = {.moe_mode = kOffload, .device_bytes = kCard};
  // A scale of bf16 for 128 columns of gate and up, and for 64 of down.
  const int64_t scales = 2 * (1024 * 16 + 2048 * 8);
  request.weights.format = HeldFormat::kInt8;
  EXPECT_EQ(PlanMemory(Preset35B(), request)->expert_slots,
            3 * kGiB / (3 * kMiB + scales));
  request.weights.format = HeldFormat::kInt4;
  EXPECT_EQ(PlanMemory(Preset35B(), request)->expert_slots,
            3 * kGiB / (3 * kMiB / 2 + scales));
}

TEST(PlanMemory, PlansTheRankThatHoldsMost) {
  ModelConfig config = Preset35B();
  config.vocab_size = 248321;  // Rank 7 has fewer rows than the others.
  PlanRequest request = {.tp_size = 8, .device_bytes = kCard};

  const int64_t most =
      NonExpertShareOf(config, MakeLocalShape(config, 0, 8).value(), {})
          .total();
  const int64_t least =
      NonExpertShareOf(config, MakeLocalShape(config, 7, 8).value(), {})
          .total();

  EXPECT_GT(most, least);
  EXPECT_EQ(PlanMemory(config, request)->non_expert_bytes, most);
}

TEST(PlanMemory, TheLongestContextIsWhatTheKvCacheHoldsWhereThatIsLess) {
  PlanRequest request = {.device_bytes = 74 * kGiB};
  const auto plan = PlanMemory(Preset35B(), request);

  ASSERT_THAT(plan, IsOk());
  EXPECT_LT(plan->kv_tokens, 262144);
  EXPECT_EQ(plan->longest_context, plan->kv_tokens);
}

TEST(PlanMemory, SaysByHowMuchAPlanDoesNotFit) {
  PlanRequest request = {.device_bytes = 24 * kGiB};

  EXPECT_THAT(
      PlanMemory(Preset35B(), request),
      StatusIs(absl::StatusCode::kResourceExhausted,
               AllOf(HasSubstr("tp_size 1, moe_mode resident"),
                     HasSubstr("needs 66.06 GiB and 2.50 MiB"),
                     HasSubstr("budget is 21.60 GiB, memory_ratio 0.9 of "
                               "device_memory 24.00 GiB: 44.46 GiB too "
                               "little. What would fit: --moe-mode offload; "
                               "or --device-memory at least "))));
}

TEST(PlanMemory, WhatIsMissingIsEnough) {
  PlanRequest request = {.memory_ratio = 1};
  request.device_bytes = 64 * kGiB;
  ASSERT_FALSE(PlanMemory(Preset35B(), request).ok());
  const auto large =
      PlanMemory(Preset35B(), {.device_bytes = kCard, .memory_ratio = 1});
  const int64_t needed =
      large->total() - large->kv_cache_bytes + 2 * 64 * 20480;

  request.device_bytes = needed;
  EXPECT_EQ(PlanMemory(Preset35B(), request)->kv_tokens, 128);
  request.device_bytes = needed - 1;
  EXPECT_THAT(PlanMemory(Preset35B(), request),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr(": 1 B too little")));
}

TEST(PlanMemory, ACommunicatorThatIsLargerThanTheCardLeavesNothing) {
  PlanRequest request = {.tp_size = 2, .device_bytes = kMiB};

  EXPECT_THAT(
      PlanMemory(Preset35B(), request),
      StatusIs(absl::StatusCode::kResourceExhausted,
               HasSubstr("budget is 1.00 MiB, 512.00 MiB for the communicator "
                         "and memory_ratio 0.9 of the rest of device_memory "
                         "1.00 MiB: ")));
}

TEST(PlanMemory, AFieldOutOfRangeIsNamedWithItsLimits) {
  const auto plan = [](int64_t device, double ratio, int64_t running) {
    return PlanMemory(Preset35B(), {.device_bytes = device,
                                    .memory_ratio = ratio,
                                    .max_running = running});
  };
  const auto invalid = [](const char* says) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(says));
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();

  EXPECT_THAT(plan(0, 0.9, 4), invalid("device_memory is 0 bytes; must be 1"));
  EXPECT_THAT(plan(kCard, 0, 4), invalid("memory_ratio is 0; must be in"));
  EXPECT_THAT(plan(kCard, 1.5, 4), invalid("memory_ratio is 1.5"));
  EXPECT_THAT(plan(kCard, nan, 4), invalid("memory_ratio is nan"));
  EXPECT_THAT(plan(kCard, 0.9, 0), invalid("max_running is 0; must be 1.."));
  EXPECT_THAT(plan(kCard, 0.9, 4097), invalid("max_running is 4097"));
}

TEST(PlanMemory, ASizeThatTheModelCannotRunAtIsRefusedByItsField) {
  PlanRequest request = {.tp_size = 3, .device_bytes = kCard};

  EXPECT_THAT(PlanMemory(Preset35B(), request),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("not divisible by tp_size=3")));
}

TEST(PlanMemory, ADenseModelIsAllNonExpert) {
  const ModelConfig config =
      LoadModelConfig(GOLDEN_DIR "/models/dense").value();

  const auto plan = PlanMemory(config, {.tp_size = 2, .device_bytes = kGiB});

  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->experts_bytes, 0);
  EXPECT_EQ(plan->expert_slots_bytes, 0);
  EXPECT_EQ(plan->non_expert_bytes,
            NonExpertShareOf(config, MakeLocalShape(config, 0, 2).value(), {})
                .total());
}

TEST(PlanMemory, OffloadOfADenseModelIsRefused) {
  const ModelConfig config =
      LoadModelConfig(GOLDEN_DIR "/models/dense").value();

  EXPECT_THAT(
      PlanMemory(config, {.moe_mode = kOffload, .device_bytes = kCard}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("moe_mode is offload; must be resident: model_type "
                         "\"qwen3_5_text\" is a dense model, without experts "
                         "to offload")));
}

TEST(StateSlots, AreThoseOfTheSpecification) {
  EXPECT_EQ(StateSlots(1), 9);
  EXPECT_EQ(StateSlots(4), 25);
  EXPECT_EQ(StateSlots(16), 97);
}

TEST(StateSlots, LeaveEightForSnapshotsAtLeast) {
  for (int64_t running = 1; running <= 4096; ++running)
    ASSERT_GE(StateSlots(running) - running, 8) << running;
}

}  // namespace
}  // namespace phalanx
