// Log-probabilities of a prompt through a group.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <tuple>
#include <vector>

#include "common/reason.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/checkpoint/checkpoint_files.h"
#include "tests/worker/engine/engine_group.h"

namespace phalanx {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

constexpr char kMoe[] = GOLDEN_DIR "/models/moe";
constexpr char kEmbed[] = "model.language_model.embed_tokens.weight";

std::unique_ptr<EngineGroup> Serving(const std::string& model_dir, int tp_size,
                                     int64_t logit_rows) {
  auto group =
      std::make_unique<EngineGroup>(model_dir, tp_size,
                                    SchedulerLimits{.max_running = 2,
                                                    .max_waiting = 32,
                                                    .max_model_len = 512,
                                                    .prefill_chunk = 32,
                                                    .step_tokens = 34,
                                                    .kv_blocks = 32,
                                                    .state_slots = 8,
                                                    .vocab_size = 0,
                                                    .logit_rows = logit_rows});
  group->Start(1);
  group->AwaitReady();
  EXPECT_EQ(group->board().Read().state, WorkerState::kReady)
      << group->board().Read().detail;
  return group;
}

Request Ask(const std::string& id, std::vector<int32_t> prompt_ids,
            int64_t max_tokens) {
  Request request;
  request.id = id;
  request.epoch = 1;
  request.prompt_ids = std::move(prompt_ids);
  request.max_tokens = max_tokens;
  request.sampling = {.temperature = 1, .seed = 3};
  request.logprobs = true;
  request.top_n = 2;
  request.priority = kNormalPriority;
  return request;
}

// Ranks, and rows of logits of a step.
class PromptLogprobs : public testing::TestWithParam<std::tuple<int, int64_t>> {
};

INSTANTIATE_TEST_SUITE_P(Sizes, PromptLogprobs,
                         testing::Combine(testing::Values(1, 2),
                                          testing::Values(2, 3, 32)));

TEST_P(PromptLogprobs, AreThoseThatTheTokensHadWhenTheyWereDrawn) {
  const std::vector<int32_t> prompt = {5, 6, 7};
  const std::vector<Token> drawn =
      Serving(kMoe, 1, /*logit_rows=*/0)->Ask(Ask("drawn", prompt, 200)).tokens;
  const auto [tp_size, logit_rows] = GetParam();
  Request request = Ask("given", prompt, /*max_tokens=*/0);
  for (const Token& token : drawn) request.prompt_ids.push_back(token.id);
  request.prompt_logprobs = true;

  const TokenRecorder::Result given =
      Serving(kMoe, tp_size, logit_rows)->Ask(request);

  EXPECT_EQ(given.finished, FinishReason::kLength);
  EXPECT_THAT(given.tokens, IsEmpty());
  ASSERT_THAT(given.prompt, SizeIs(202));
  EXPECT_EQ(std::vector<Token>(given.prompt.begin() + 2, given.prompt.end()),
            drawn);
}

// The row that has no numbers is neither the first nor the last of its chunk.
TEST(PromptLogprobsOfNan, EndTheirOwnRequestAlone) {
  TempFolder folder;
  TensorSpecs tensors = ReadTensors(kMoe);
  TensorSpec& embed = tensors.at(kEmbed);
  const int64_t row_bytes = 2 * embed.shape[1];
  std::fill_n(embed.data.begin() + 77 * row_bytes, row_bytes, '\xff');
  folder.Write("config.json", ReadBytes(std::string(kMoe) + "/config.json"));
  folder.Write("model.safetensors", SafetensorsBytes(tensors));
  const Request good = Ask("good", {5, 6, 7, 8, 9}, 30);
  const std::vector<Token> expected = Serving(kMoe, 1, 8)->Ask(good).tokens;
  const auto group = Serving(folder.path(), 1, 8);
  Request bad = Ask("bad", {5, 6, 7, 77, 9, 10, 11}, 30);
  bad.prompt_logprobs = true;

  TokenRecorder bad_sink, good_sink;
  ASSERT_OK(group->inbox().Submit(bad, &bad_sink));
  ASSERT_OK(group->inbox().Submit(good, &good_sink));

  EXPECT_EQ(ReasonOf(bad_sink.Wait().error).word, "NON_FINITE_LOGITS");
  EXPECT_EQ(good_sink.Wait().tokens, expected);
}

}  // namespace
}  // namespace phalanx
