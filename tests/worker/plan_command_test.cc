#include "worker/plan_command.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/units.h"
#include "tests/support/status_matchers.h"
#include "worker/plan/presets.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

PlanRequest RequestOf(int tp_size, MoeMode mode) {
  PlanRequest request;
  request.tp_size = tp_size;
  request.moe_mode = mode;
  request.device_bytes = 96 * kGiB;
  return request;
}

MemoryPlan PlanOf(int tp_size, MoeMode mode) {
  return PlanMemory(PresetConfig("qwen3.6-35b-a3b").value(),
                    RequestOf(tp_size, mode))
      .value();
}

TEST(PlanTable, HasALineAPlanUnderItsHead) {
  const MemoryPlan plans[] = {PlanOf(1, MoeMode::kResident),
                              PlanOf(2, MoeMode::kResident)};

  const std::string text = PlanTable(plans, RequestOf(2, MoeMode::kResident));

  const std::string head = text.substr(0, text.find('\n'));
  for (const char* column :
       {"TP", "mode", "experts", "KV cache", "non-expert", "expert slots",
        "states", "KV tokens", "longest context"})
    EXPECT_THAT(head, HasSubstr(column));
  EXPECT_THAT(text, AllOf(HasSubstr("\n 1  resident  60.00 GiB"),
                          HasSubstr("\n 2  resident  30.00 GiB")));
}

TEST(PlanTable, SaysWhichAssumptionSetsOneRankApart) {
  const MemoryPlan plans[] = {PlanOf(1, MoeMode::kResident)};

  EXPECT_THAT(PlanTable(plans, RequestOf(1, MoeMode::kResident)),
              HasSubstr("Above TP 1 the communicator takes 512.00 MiB of each "
                        "card first"));
}

TEST(PlanTable, TellsLiveSlotsFromThoseOfSnapshots) {
  const MemoryPlan plans[] = {PlanOf(1, MoeMode::kResident)};

  EXPECT_THAT(PlanTable(plans, RequestOf(1, MoeMode::kResident)),
              HasSubstr("25 state slots: 4 live, of running sequences, and 21 "
                        "of snapshots"));
}

TEST(PlanTable, TellsTheHostsBankOnlyInOffload) {
  const MemoryPlan resident[] = {PlanOf(1, MoeMode::kResident)};
  const MemoryPlan offload[] = {PlanOf(1, MoeMode::kOffload)};

  EXPECT_THAT(PlanTable(offload, RequestOf(1, MoeMode::kOffload)),
              HasSubstr("the host holds the experts once, 60.00 GiB"));
  EXPECT_THAT(PlanTable(resident, RequestOf(1, MoeMode::kResident)),
              Not(HasSubstr("host")));
}

TEST(PlanTable, IsNothingWithoutPlans) { EXPECT_EQ(PlanTable({}, {}), ""); }

TEST(PlanJson, HasExactlyThePlansFields) {
  const MemoryPlan plan = PlanOf(2, MoeMode::kOffload);

  const auto list = nlohmann::json::parse(PlanJson({&plan, 1}));

  EXPECT_EQ(list,
            nlohmann::json::array(
                {{{"tp_size", 2},
                  {"moe_mode", "offload"},
                  {"experts_bytes", 0},
                  {"kv_cache_bytes", plan.kv_cache_bytes},
                  {"non_expert_bytes", plan.non_expert_bytes},
                  {"state_bytes", plan.state_bytes},
                  {"expert_slots_bytes", 3 * kGiB},
                  {"kv_tokens", plan.kv_tokens},
                  {"state_slots", 25},
                  {"expert_slots", 1024},
                  {"fetched_bytes_per_token", plan.fetched_bytes_per_token},
                  {"read_bytes_per_token", plan.read_bytes_per_token}}}));
}

TEST(PlanJson, TellsTokensASecondWhereTheDiskIsKnown) {
  const MemoryPlan plan = PlanOf(2, MoeMode::kOffload);

  const auto list = nlohmann::json::parse(PlanJson({&plan, 1}, 2.5));

  EXPECT_DOUBLE_EQ(list[0]["tokens_per_second"].get<double>(),
                   2.5e9 / static_cast<double>(plan.read_bytes_per_token));
}

TEST(PlanTable, TellsWhatATokenFetchesInOffload) {
  const MemoryPlan plans[] = {PlanOf(2, MoeMode::kOffload)};

  const std::string text =
      PlanTable(plans, RequestOf(2, MoeMode::kOffload), /*read_gbps=*/3);

  EXPECT_THAT(text,
              HasSubstr("TP 2, 1024 slots: at uniform routing a token "
                        "fetches 864.00 MiB into each card, 1.69 GiB "
                        "from the bank: at most 1.66 tokens/s at 3 GB/s"));
}

TEST(PlanJson, IsAnEmptyListWithoutPlans) { EXPECT_EQ(PlanJson({}), "[]\n"); }

}  // namespace
}  // namespace phalanx
