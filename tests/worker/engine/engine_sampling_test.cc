// Full sampling through a group: what a request asks of its tokens gives the
// same bytes alone, beside others, on more ranks, and after a replay.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/support/status_matchers.h"
#include "tests/worker/engine/engine_group.h"

namespace phalanx {
namespace {

using testing::Contains;
using testing::Each;
using testing::SizeIs;

constexpr char kMoe[] = GOLDEN_DIR "/models/moe";

constexpr SchedulerLimits kLimits = {.max_running = 4,
                                     .max_waiting = 32,
                                     .max_model_len = 256,
                                     .prefill_chunk = 32,
                                     .step_tokens = 64,
                                     .kv_blocks = 16,
                                     .state_slots = 4,
                                     .vocab_size = 0};

std::unique_ptr<EngineGroup> Serving(int tp_size) {
  auto group = std::make_unique<EngineGroup>(kMoe, tp_size, kLimits);
  group->Start(1);
  group->AwaitReady();
  EXPECT_EQ(group->board().Read().state, WorkerState::kReady)
      << group->board().Read().detail;
  return group;
}

Request Ask(const std::string& id, Sampling sampling) {
  Request request;
  request.id = id;
  request.epoch = 1;
  request.prompt_ids = {5, 6, 7, 8, 9, 5, 6};
  request.sampling = std::move(sampling);
  request.max_tokens = 40;
  request.logprobs = true;
  request.top_n = 2;
  request.priority = kNormalPriority;
  return request;
}

std::vector<Sampling> Samplings() {
  return {{.temperature = 1, .seed = 3, .presence = 1.5f},
          {.temperature = 0, .frequency = 0.5f},
          {.temperature = 0.8f,
           .top_p = 0.9f,
           .seed = 4,
           .repetition = 1.3f,
           .repetition_window = 5},
          {.temperature = 1.2f,
           .top_k = 50,
           .min_p = 0.01f,
           .seed = 5,
           .presence = 0.4f,
           .frequency = 0.3f,
           .repetition = 1.1f,
           .logit_bias = {{11, 3}, {12, -3}},
           .banned_ids = {13, 14}}};
}

std::string Name(size_t i) { return "sampled-" + std::to_string(i); }

class EngineSampling : public testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(TpSizes, EngineSampling, testing::Values(1, 2),
                         testing::PrintToStringParamName());

TEST_P(EngineSampling, IsTheSameAloneBesideOthersAndOnOneRank) {
  const std::vector<Sampling> samplings = Samplings();
  const auto one = Serving(1);
  std::vector<std::vector<Token>> alone;
  for (size_t i = 0; i < samplings.size(); ++i)
    alone.push_back(one->Ask(Ask(Name(i), samplings[i])).tokens);
  const auto group = Serving(GetParam());

  std::vector<std::unique_ptr<TokenRecorder>> sinks;
  for (size_t i = 0; i < samplings.size(); ++i) {
    sinks.push_back(std::make_unique<TokenRecorder>());
    ASSERT_OK(
        group->inbox().Submit(Ask(Name(i), samplings[i]), sinks.back().get()));
  }

  for (size_t i = 0; i < samplings.size(); ++i) {
    EXPECT_THAT(alone[i], SizeIs(40));
    EXPECT_EQ(sinks[i]->Wait().tokens, alone[i]) << Name(i);
  }
}

// Emitted tokens are output like those that were drawn here.
TEST_P(EngineSampling, GoesOnAfterEmittedIdsAsIfNothingHadHappened) {
  const auto group = Serving(GetParam());
  for (const Sampling& sampling : Samplings()) {
    const TokenRecorder::Result whole = group->Ask(Ask("whole", sampling));
    for (const int64_t cut : {1, 17, 39}) {
      Request rest = Ask("rest", sampling);
      const std::vector<int32_t> ids = whole.ids();
      rest.emitted_ids.assign(ids.begin(), ids.begin() + cut);

      EXPECT_EQ(
          group->Ask(rest).tokens,
          std::vector<Token>(whole.tokens.begin() + cut, whole.tokens.end()))
          << cut;
    }
  }
}

TEST_P(EngineSampling, EveryPenaltyChangesTheAnswer) {
  const auto group = Serving(GetParam());
  const std::vector<int32_t> plain = group->Ask(Ask("plain", {})).ids();

  for (const Sampling& sampling :
       {Sampling{.presence = 2}, Sampling{.frequency = 2},
        Sampling{.repetition = 5}, Sampling{.banned_ids = {plain[0]}},
        Sampling{.logit_bias = {{plain[1], -100}}}})
    EXPECT_NE(group->Ask(Ask("other", sampling)).ids(), plain);
}

TEST_P(EngineSampling, DrawsAllowedIdsAlone) {
  const auto group = Serving(GetParam());

  const std::vector<int32_t> ids =
      group
          ->Ask(Ask("few", {.temperature = 2,
                            .allowed_ids = {20, 30, 40},
                            .banned_ids = {30}}))
          .ids();

  EXPECT_THAT(ids, Each(testing::AnyOf(20, 40)));
  EXPECT_THAT(ids, Contains(20));
  EXPECT_THAT(ids, Contains(40));
}

}  // namespace
}  // namespace phalanx
