#include "gateway/cli/status.h"

#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

using testing::HasSubstr;
using testing::Not;

v1::GetStatusResponse TwoRanks() {
  v1::GetStatusResponse status;
  status.set_version("0.1.0");
  status.set_model("m");
  status.set_state("ready");
  v1::GroupStatus& group = *status.add_groups();
  group.set_name("0");
  group.set_state("forming");
  group.set_epoch(3);
  v1::RankStatus& alive = *group.add_ranks();
  alive.set_reachable(true);
  v1::WorkerStatus& worker = *alive.mutable_worker();
  worker.set_state(v1::RANK_STATE_READY);
  worker.set_kv_blocks_used(3);
  worker.set_kv_blocks_total(64);
  v1::MemoryUse& use = *worker.add_memory();
  use.set_category("experts");
  use.set_bytes(3 << 19);
  use.set_allocated_bytes(2 << 20);
  v1::MemoryUse& more = *worker.add_memory();
  more.set_category("comm");
  more.set_allocated_bytes(5 << 20);
  worker.set_moe_mode("offload");
  worker.mutable_model()->set_weight_format("int8");
  worker.set_offload_bank("sharded");
  worker.set_planned_bytes(11 << 20);
  worker.set_memory_budget_bytes(13 << 20);
  v1::RankStatus& lost = *group.add_ranks();
  lost.set_address("unix:r1");
  lost.set_error("no such socket");
  return status;
}

TEST(StatusText, NamesTheGatewayAndTheGroup) {
  const std::string text = StatusText(TwoRanks());

  EXPECT_THAT(text, HasSubstr("gateway 0.1.0  ready  model m"));
  EXPECT_THAT(text, HasSubstr("group 0  forming  epoch 3  ranks 2"));
}

TEST(StatusText, SetsSeveralGroupsApartEachWithItsStreams) {
  v1::GetStatusResponse status = TwoRanks();
  *status.add_groups() = status.groups(0);
  status.mutable_groups(1)->set_name("b");
  status.mutable_groups(1)->set_streams(7);
  const std::string text = StatusText(status);

  EXPECT_THAT(text, HasSubstr("\n\ngroup 0  forming"));
  EXPECT_THAT(text, HasSubstr("\n\ngroup b  forming"));
  EXPECT_THAT(text, HasSubstr("ranks 2  streams 7"));
}

TEST(StatusText, SaysWhyAGroupOfReadyRanksIsNotReady) {
  v1::GetStatusResponse status = TwoRanks();
  v1::GroupStatus& group = *status.mutable_groups(0);
  group.mutable_ranks()->RemoveLast();
  group.set_detail("another model");

  EXPECT_THAT(StatusText(status), HasSubstr("\n  another model\n"));
}

TEST(StatusText, SaysWhetherADrainRefusesAlready) {
  v1::GetStatusResponse status = TwoRanks();
  status.set_state("draining");
  EXPECT_THAT(StatusText(status), HasSubstr("  draining  model"));
  status.set_closed(true);
  EXPECT_THAT(StatusText(status), HasSubstr("  draining, closed  model"));
}

TEST(StatusText, ShowsWhatARankUsesOfWhatItHas) {
  const std::string text = StatusText(TwoRanks());

  EXPECT_THAT(text, HasSubstr("3/64"));
  EXPECT_THAT(text, HasSubstr("1.5 MiB"));
}

TEST(StatusText, NamesTheModeOfTheExpertsTheirBankAndTheFormatOfWeights) {
  v1::GetStatusResponse status = TwoRanks();
  EXPECT_THAT(StatusText(status),
              HasSubstr("ranks 2  streams 0  experts offload, bank sharded  "
                        "weights int8\n"));

  v1::WorkerStatus& worker =
      *status.mutable_groups(0)->mutable_ranks(0)->mutable_worker();
  worker.set_moe_mode("resident");
  worker.clear_offload_bank();
  EXPECT_THAT(
      StatusText(status),
      HasSubstr("ranks 2  streams 0  experts resident  weights int8\n"));
}

TEST(StatusText, PutsWhatIsHeldBesideThePlanAndTheBudget) {
  const std::string text = StatusText(TwoRanks());

  EXPECT_THAT(text, testing::ContainsRegex("held +plan +budget"));
  EXPECT_THAT(text, HasSubstr("7.0 MiB  11.0 MiB  13.0 MiB"));
}

TEST(StatusText, ShowsHowFarALoadingRankIs) {
  v1::GetStatusResponse status = TwoRanks();
  v1::WorkerStatus& worker =
      *status.mutable_groups(0)->mutable_ranks(0)->mutable_worker();
  worker.set_load_progress(0.436);

  EXPECT_THAT(StatusText(status), Not(HasSubstr("43%")));
  worker.set_state(v1::RANK_STATE_LOADING);
  EXPECT_THAT(StatusText(status), HasSubstr("loading 43%"));
}

TEST(StatusText, SaysWhyARankIsUnreachable) {
  EXPECT_THAT(StatusText(TwoRanks()),
              HasSubstr("rank 1 at unix:r1: no such socket"));
}

TEST(StatusText, TakesAServiceWithoutGroups) {
  EXPECT_THAT(StatusText(v1::GetStatusResponse()), HasSubstr("gateway"));
}

}  // namespace
}  // namespace phalanx
