#include "worker/engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <latch>

#include "common/reason.h"
#include "tests/support/golden_file.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/engine/engine_group.h"

namespace phalanx {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::SizeIs;

constexpr char kMini[] = SOURCE_ROOT "/deploy/models/phalanx-mini";
constexpr char kMoe[] = GOLDEN_DIR "/models/moe";

SchedulerLimits Limits(int64_t running, int64_t model_len) {
  return {.max_running = running,
          .max_waiting = 32,
          .max_model_len = model_len,
          .prefill_chunk = 32,
          .step_tokens = 64,
          .kv_blocks = running * (model_len / kKvBlockTokens),
          .state_slots = running,
          .vocab_size = 0};
}

Request MoeRequest(const std::string& id, int64_t max_tokens) {
  Request request;
  request.id = id;
  request.epoch = 1;
  request.prompt_ids = {5, 6, 7, 8, 9};
  request.max_tokens = max_tokens;
  request.priority = kNormalPriority;
  return request;
}

// A group of model `moe` that serves, for what goes wrong in mid-stream.
class EngineTest : public testing::Test {
 protected:
  explicit EngineTest(int tp_size = 2, int64_t running = 2)
      : group_(kMoe, tp_size, Limits(running, 256)) {}

  void Serve(uint64_t epoch = 1) {
    group_.Start(epoch);
    group_.AwaitReady();
    ASSERT_EQ(group_.board().Read().state, WorkerState::kReady)
        << group_.board().Read().detail;
  }

  EngineGroup group_;
};

// --- Answers ---------------------------------------------------------------

class Answers : public testing::TestWithParam<int> {};

// As many tokens as the reference implementation's lead allows to ask for.
TEST_P(Answers, AreTheReferenceImplementationsGreedyOnes) {
  constexpr double kSafeMargin = 0.6;
  EngineGroup group(kMini, GetParam(), Limits(8, 512));
  group.Start(1);
  group.AwaitReady();
  const auto generation = LoadGenerationConfig(kMini);
  ASSERT_OK(generation);

  const nlohmann::json answers =
      ReadGoldenJson(std::string(kMini) + "/answers.json");
  std::vector<std::unique_ptr<TokenRecorder>> sinks;
  for (const auto& answer : answers) {
    Request request;
    request.id = answer.at("name");
    request.epoch = 1;
    request.prompt_ids = answer.at("prompt_ids").get<std::vector<int32_t>>();
    request.max_tokens = 256;
    request.stop_ids = generation->eos_token_ids;
    request.priority = kNormalPriority;
    sinks.push_back(std::make_unique<TokenRecorder>());
    ASSERT_OK(group.inbox().Submit(request, sinks.back().get()));
  }
  ASSERT_THAT(sinks, SizeIs(20));
  for (size_t i = 0; i < sinks.size(); ++i) {
    const TokenRecorder::Result result = sinks[i]->Wait();
    const auto margins =
        answers[i].at("margins_f32").get<std::vector<double>>();
    auto expected = answers[i].at("greedy_f32").get<std::vector<int32_t>>();
    std::vector<int32_t> ours = result.ids();
    const size_t safe =
        std::find_if(margins.begin(), margins.end(),
                     [&](double margin) { return margin < kSafeMargin; }) -
        margins.begin();
    if (safe < margins.size()) {
      expected.resize(safe);
      ours.resize(std::min(ours.size(), safe));
    } else {
      EXPECT_EQ(result.finished, FinishReason::kStop);
    }
    EXPECT_EQ(ours, expected) << answers[i].at("name");
  }
  group.engine().Stop();
  EXPECT_THAT(group.Join(), Each(IsOk()));
}

INSTANTIATE_TEST_SUITE_P(TpSizes, Answers, testing::Values(1, 2),
                         testing::PrintToStringParamName());

TEST_F(EngineTest, SeededSamplingIsTheSameAloneAndBesideOthers) {
  Serve();
  const auto request = [](int i) {
    Request request = MoeRequest("seeded-" + std::to_string(i), 24);
    request.prompt_ids.assign(3 + 30 * i, 11 + i);
    request.sampling = {.temperature = 1.0f,
                        .top_k = 40,
                        .seed = 7u + static_cast<uint64_t>(i)};
    request.logprobs = true;
    request.top_n = 2;
    return request;
  };
  std::vector<std::vector<Token>> alone;
  for (int i = 0; i < 4; ++i) alone.push_back(group_.Ask(request(i)).tokens);
  std::vector<std::unique_ptr<TokenRecorder>> sinks;
  for (int i = 0; i < 4; ++i) {
    sinks.push_back(std::make_unique<TokenRecorder>());
    ASSERT_OK(group_.inbox().Submit(request(i), sinks.back().get()));
  }
  for (int i = 0; i < 4; ++i) {
    EXPECT_THAT(alone[i], SizeIs(24));
    EXPECT_EQ(sinks[i]->Wait().tokens, alone[i]) << "request " << i;
  }
  EXPECT_NE(alone[0], alone[1]);
}

TEST_F(EngineTest, MoreRequestsThanSlotsAllFinish) {
  Serve();
  std::vector<std::unique_ptr<TokenRecorder>> sinks;
  for (int i = 0; i < 9; ++i) {
    sinks.push_back(std::make_unique<TokenRecorder>());
    ASSERT_OK(group_.inbox().Submit(MoeRequest("r" + std::to_string(i), 5),
                                    sinks.back().get()));
  }
  for (const auto& sink : sinks) {
    const TokenRecorder::Result result = sink->Wait();
    EXPECT_EQ(result.finished, FinishReason::kLength);
    EXPECT_THAT(result.tokens, SizeIs(5));
  }
  group_.engine().Stop();
  group_.Join();
  EXPECT_EQ(group_.inbox().active(), 0);
  EXPECT_EQ(group_.board().Read().counts.kv_blocks_used, 0);
  EXPECT_EQ(group_.board().Read().counts.state_slots_used, 0);
}

TEST_F(EngineTest, APrefixThatWasKeptGivesTheSameAnswer) {
  Serve();
  Request request = MoeRequest("first", 20);
  request.prompt_ids.resize(100, 17);
  request.anchors = {70};
  const std::vector<int32_t> computed = group_.Ask(request).ids();
  request.id = "second";

  EXPECT_EQ(group_.Ask(request).ids(), computed);

  group_.engine().Stop();
  group_.Join();
  EXPECT_EQ(group_.board().Read().counts.prefix_hit_tokens, 70);
}

// --- Cancellation ----------------------------------------------------------

TEST_F(EngineTest, AReaderThatLeavesGetsNoFurtherToken) {
  Serve();
  TokenRecorder* self = nullptr;
  TokenRecorder sink([&](int64_t count) {
    if (count == 3) self->Leave();
  });
  self = &sink;
  ASSERT_OK(group_.inbox().Submit(MoeRequest("left", 200), &sink));
  const TokenRecorder::Result result = sink.Wait();
  EXPECT_THAT(result.tokens, SizeIs(3));
  EXPECT_EQ(result.error.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(ReasonOf(result.error).word, "CLIENT");
}

TEST_F(EngineTest, CancelByIdEndsBeforeTheNextStep) {
  Serve();
  TokenRecorder sink([&](int64_t count) {
    if (count == 4) {
      EXPECT_TRUE(group_.inbox().Cancel("named"));
    }
  });
  ASSERT_OK(group_.inbox().Submit(MoeRequest("named", 200), &sink));
  const TokenRecorder::Result result = sink.Wait();
  EXPECT_THAT(result.tokens, SizeIs(4));
  EXPECT_EQ(result.error.code(), absl::StatusCode::kCancelled);
}

TEST_F(EngineTest, CancellingOneLeavesItsNeighbourAlone) {
  Serve();
  const std::vector<int32_t> expected =
      group_.Ask(MoeRequest("alone", 20)).ids();
  TokenRecorder leaver([&](int64_t count) {
    if (count == 2) group_.inbox().Cancel("leaver");
  });
  TokenRecorder stayer;
  ASSERT_OK(group_.inbox().Submit(MoeRequest("leaver", 200), &leaver));
  ASSERT_OK(group_.inbox().Submit(MoeRequest("stayer", 20), &stayer));
  EXPECT_EQ(stayer.Wait().ids(), expected);
  EXPECT_EQ(leaver.Wait().error.code(), absl::StatusCode::kCancelled);
}

// --- The end of a group ----------------------------------------------------

TEST_F(EngineTest, StopEndsEveryRankWithOk) {
  Serve();
  group_.engine().Stop();
  EXPECT_THAT(group_.Join(), Each(IsOk()));
  EXPECT_EQ(group_.board().Read().state, WorkerState::kDraining);
}

TEST_F(EngineTest, StopInMidStreamEndsSinksWithDraining) {
  Serve();
  TokenRecorder sink([&](int64_t count) {
    if (count == 2) group_.engine().Stop();
  });
  ASSERT_OK(group_.inbox().Submit(MoeRequest("r", 200), &sink));
  const TokenRecorder::Result result = sink.Wait();
  EXPECT_EQ(result.error.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(result.error).word, "DRAINING");
  EXPECT_THAT(group_.Join(), Each(IsOk()));
}

// Running ones, one in the queue, and one that comes too late.
TEST_F(EngineTest, ALostRankEndsEverySinkWithGroupLost) {
  Serve();
  std::latch all_submitted(1);
  std::vector<std::unique_ptr<TokenRecorder>> sinks;
  sinks.push_back(std::make_unique<TokenRecorder>([&](int64_t count) {
    if (count != 3) return;
    all_submitted.wait();
    group_.collective(1).Abort(absl::UnavailableError("rank 1 went away"));
  }));
  for (int i = 0; i < 3; ++i)
    sinks.push_back(std::make_unique<TokenRecorder>());
  for (size_t i = 0; i < sinks.size(); ++i)
    ASSERT_OK(group_.inbox().Submit(MoeRequest("r" + std::to_string(i), 200),
                                    sinks[i].get()));
  all_submitted.count_down();
  for (const auto& sink : sinks) {
    const TokenRecorder::Result result = sink->Wait();
    EXPECT_FALSE(result.finished.has_value());
    EXPECT_THAT(result.error, StatusIs(absl::StatusCode::kUnavailable,
                                       HasSubstr("rank 1 went away")));
    const Reason reason = ReasonOf(result.error);
    EXPECT_EQ(reason.word, "GROUP_LOST");
    EXPECT_EQ(reason.metadata.at("epoch"), "1");
    EXPECT_EQ(reason.metadata.at("rank"), "1");
    // It came between two steps.
    EXPECT_EQ(reason.metadata.at("in_step"), "false");
  }
  for (const absl::Status& status : group_.Join())
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  TokenRecorder late;
  EXPECT_EQ(ReasonOf(group_.inbox().Submit(MoeRequest("late", 5), &late)).word,
            "GROUP_LOST");
  EXPECT_EQ(group_.inbox().active(), 0);
}

TEST_F(EngineTest, AnIdleGroupSeesTheLoss) {
  Serve();
  group_.collective(1).Abort(absl::UnavailableError("rank 1 went away"));
  for (const absl::Status& status : group_.Join())
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable,
                                 HasSubstr("rank 1 went away")));
}

TEST_F(EngineTest, TheNextEpochServesTheSameAnswer) {
  Serve(1);
  const std::vector<int32_t> expected = group_.Ask(MoeRequest("a", 20)).ids();
  TokenRecorder cut([&](int64_t count) {
    if (count == 3) group_.collective(1).Abort(absl::UnavailableError("gone"));
  });
  ASSERT_OK(group_.inbox().Submit(MoeRequest("a", 200), &cut));
  EXPECT_EQ(ReasonOf(cut.Wait().error).word, "GROUP_LOST");
  group_.Join();

  Serve(2);
  TokenRecorder sink;
  EXPECT_EQ(ReasonOf(group_.inbox().Submit(MoeRequest("a", 20), &sink)).word,
            "STALE_EPOCH");
  Request again = MoeRequest("a", 20);
  again.epoch = 2;
  EXPECT_EQ(group_.Ask(again).ids(), expected);
}

// What a client had before the loss is replayed, not pushed, and goes on as it
// would have.
TEST_F(EngineTest, EmittedIdsAreContinuedAsIfNothingHadHappened) {
  Serve();
  Request request = MoeRequest("whole", 30);
  request.sampling = {.temperature = 0.9f, .seed = 3};
  const std::vector<int32_t> whole = group_.Ask(request).ids();
  request.id = "rest";
  request.emitted_ids.assign(whole.begin(), whole.begin() + 11);
  EXPECT_EQ(group_.Ask(request).ids(),
            std::vector<int32_t>(whole.begin() + 11, whole.end()));
}

TEST_F(EngineTest, AFollowerOfAnotherEpochEndsTheGroupInWarmUp) {
  group_.Start(/*epoch=*/5, /*followers_epoch=*/4);
  const std::vector<absl::Status> results = group_.Join();
  EXPECT_THAT(results[1], StatusIs(absl::StatusCode::kInternal,
                                   HasSubstr("epoch 5 came in epoch 4")));
  EXPECT_EQ(ReasonOf(results[1]).word, "RANK_DIVERGED");
  EXPECT_FALSE(results[0].ok());
  TokenRecorder sink;
  EXPECT_EQ(group_.inbox().Submit(MoeRequest("r", 5), &sink).code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(EngineTest, EveryRankShowsTheSameWarmUpHash) {
  Serve();
  group_.Ask(MoeRequest("r", 3));
  group_.engine().Stop();
  group_.Join();
  EXPECT_NE(group_.board(0).Read().warmup_logits_hash, 0u);
  EXPECT_EQ(group_.board(0).Read().warmup_logits_hash,
            group_.board(1).Read().warmup_logits_hash);
  EXPECT_EQ(group_.board(0).Read().steps, group_.board(1).Read().steps);
}

}  // namespace
}  // namespace phalanx
