// How an engine ends when it may finish what it has.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/reason.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/engine/engine_group.h"

namespace phalanx {
namespace {

using testing::Each;
using testing::SizeIs;

constexpr char kMoe[] = GOLDEN_DIR "/models/moe";

Request MoeRequest(const std::string& id, int64_t max_tokens) {
  Request request;
  request.id = id;
  request.epoch = 1;
  request.prompt_ids = {5, 6, 7, 8, 9};
  request.max_tokens = max_tokens;
  request.priority = kNormalPriority;
  return request;
}

class DrainTest : public testing::Test {
 protected:
  DrainTest()
      : group_(kMoe, /*tp_size=*/2,
               {.max_running = 1,
                .max_waiting = 8,
                .max_model_len = 256,
                .prefill_chunk = 32,
                .step_tokens = 64,
                .kv_blocks = 4,
                .state_slots = 1,
                .vocab_size = 0}) {
    group_.Start(/*epoch=*/1);
    group_.AwaitReady();
  }

  EngineGroup group_;
};

TEST_F(DrainTest, AnIdleGroupEndsAtOnceOnEveryRank) {
  group_.engine().Drain();

  EXPECT_THAT(group_.Join(), Each(IsOk()));
  EXPECT_EQ(group_.board().Read().state, WorkerState::kDraining);
}

// One runs and one waits for its place.
TEST_F(DrainTest, FinishesWhatRunsAndWhatWaits) {
  TokenRecorder runs([&](int64_t count) {
    if (count == 2) group_.engine().Drain();
  });
  TokenRecorder waits;
  ASSERT_OK(group_.inbox().Submit(MoeRequest("waits", 7), &waits));
  ASSERT_OK(group_.inbox().Submit(MoeRequest("runs", 20), &runs));

  EXPECT_THAT(waits.Wait().tokens, SizeIs(7));
  EXPECT_THAT(runs.Wait().tokens, SizeIs(20));
  EXPECT_THAT(group_.Join(), Each(IsOk()));
}

TEST_F(DrainTest, TakesNothingNewAndSaysThatItDrains) {
  absl::Status refused;
  WorkerState state = WorkerState::kReady;
  TokenRecorder late;
  TokenRecorder runs([&](int64_t count) {
    if (count == 2) group_.engine().Drain();
    if (count != 5) return;
    refused = group_.inbox().Submit(MoeRequest("late", 5), &late);
    state = group_.board().Read().state;
  });
  ASSERT_OK(group_.inbox().Submit(MoeRequest("runs", 20), &runs));

  runs.Wait();
  group_.Join();

  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(refused).word, "DRAINING");
  EXPECT_EQ(state, WorkerState::kDraining);
}

TEST_F(DrainTest, StopEndsADrainWithDraining) {
  TokenRecorder runs([&](int64_t count) {
    if (count == 2) group_.engine().Drain();
    if (count == 5) group_.engine().Stop();
  });
  ASSERT_OK(group_.inbox().Submit(MoeRequest("runs", 200), &runs));

  const TokenRecorder::Result result = runs.Wait();

  EXPECT_THAT(result.tokens, SizeIs(5));
  EXPECT_EQ(ReasonOf(result.error).word, "DRAINING");
  EXPECT_THAT(group_.Join(), Each(IsOk()));
}

}  // namespace
}  // namespace phalanx
