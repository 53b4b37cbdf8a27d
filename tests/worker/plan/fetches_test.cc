// What a plan says that a token fetches, against the slots' own bookkeeping
// under uniform routing.

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "common/units.h"
#include "tests/support/status_matchers.h"
#include "worker/experts/slot_table.h"
#include "worker/plan/memory_plan.h"
#include "worker/plan/presets.h"

namespace phalanx {
namespace {

// Fetches a token, once the slots are full.
double SimulatedMisses(const ModelConfig& config, int64_t slots) {
  constexpr int kWarmTokens = 400;
  constexpr int kTokens = 1200;
  const int64_t layers = config.num_layers();
  SlotTable table(slots, layers, config.num_experts);
  std::mt19937 random(1);
  std::vector<int> experts(static_cast<size_t>(config.num_experts));
  std::iota(experts.begin(), experts.end(), 0);
  int64_t misses = 0;
  for (int token = 0; token < kTokens; ++token) {
    for (int layer = 0; layer < layers; ++layer) {
      std::shuffle(experts.begin(), experts.end(), random);
      for (int64_t i = 0; i < config.num_experts_per_tok; ++i) {
        const ExpertId id{layer, experts[static_cast<size_t>(i)]};
        int64_t slot = table.Find(id);
        if (slot == SlotTable::kNone) {
          slot = table.Take(id);
          table.SetReady(slot);
          if (token >= kWarmTokens) ++misses;
        }
        table.Use(slot);
      }
    }
  }
  return static_cast<double>(misses) / (kTokens - kWarmTokens);
}

class Fetches : public testing::TestWithParam<int64_t> {};

TEST_P(Fetches, APlanSaysWhatTheSlotsOfAUniformRoutingFetch) {
  ModelConfig config = PresetConfig("qwen3.6-35b-a3b").value();
  config.layer_types.resize(4);
  PlanRequest request = {.moe_mode = MoeMode::kOffload,
                         .device_bytes = 96 * kGiB,
                         .expert_slots = GetParam()};
  request.weights.format = HeldFormat::kInt8;

  const auto plan = PlanMemory(config, request);

  ASSERT_THAT(plan, IsOk());
  const double bytes = SimulatedMisses(config, GetParam()) *
                       static_cast<double>(plan->expert_slots_bytes) /
                       static_cast<double>(plan->expert_slots);
  EXPECT_NEAR(static_cast<double>(plan->fetched_bytes_per_token), bytes,
              0.02 * bytes);
}

INSTANTIATE_TEST_SUITE_P(Slots, Fetches, testing::Values(256, 512, 900));

TEST(Fetches, AreNoneWhereEveryExpertHasASlot) {
  ModelConfig config = PresetConfig("qwen3.6-35b-a3b").value();
  config.layer_types.resize(4);
  const auto plan = PlanMemory(config, {.moe_mode = MoeMode::kOffload,
                                        .device_bytes = 96 * kGiB,
                                        .expert_slots = 4 * 256});

  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->fetched_bytes_per_token, 0);
}

TEST(Fetches, RanksThatShareAnExpertReadItOnce) {
  const ModelConfig config = PresetConfig("qwen3.6-35b-a3b").value();
  PlanRequest request = {.tp_size = 4,
                         .moe_mode = MoeMode::kOffload,
                         .bank = OffloadBank::kSharded,
                         .device_bytes = 96 * kGiB,
                         .expert_slots = 1024};
  const auto sharded = PlanMemory(config, request);
  request.bank = OffloadBank::kFull;
  const auto full = PlanMemory(config, request);

  EXPECT_EQ(sharded->read_bytes_per_token, full->read_bytes_per_token);
  EXPECT_EQ(sharded->read_bytes_per_token,
            4 * sharded->fetched_bytes_per_token);
  EXPECT_EQ(full->read_bytes_per_token, full->fetched_bytes_per_token);
}

}  // namespace
}  // namespace phalanx
