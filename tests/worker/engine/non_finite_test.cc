// Weights that are no numbers: a model loads with them, a request that meets
// one ends with a reason, and everything else goes on as if it was not there.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "common/reason.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/checkpoint/checkpoint_files.h"
#include "tests/worker/engine/engine_group.h"

namespace phalanx {
namespace {

using testing::Each;

constexpr char kMoe[] = GOLDEN_DIR "/models/moe";
constexpr char kEmbed[] = "model.language_model.embed_tokens.weight";
constexpr char kDown[] = "model.language_model.layers.1.mlp.experts.down_proj";

constexpr SchedulerLimits kLimits = {.max_running = 3,
                                     .max_waiting = 32,
                                     .max_model_len = 128,
                                     .prefill_chunk = 32,
                                     .step_tokens = 64,
                                     .kv_blocks = 6,
                                     .state_slots = 3,
                                     .vocab_size = 0};

Request Ask(const std::string& id, std::vector<int32_t> prompt_ids,
            int64_t max_tokens) {
  Request request;
  request.id = id;
  request.epoch = 1;
  request.prompt_ids = std::move(prompt_ids);
  request.max_tokens = max_tokens;
  request.priority = kNormalPriority;
  return request;
}

// Elements first .. first + count - 1 of a bf16 tensor become this one.
void Fill(TensorSpec& tensor, int64_t first, int64_t count, uint16_t bits) {
  for (int64_t i = first; i < first + count; ++i) {
    tensor.data[2 * i] = static_cast<char>(bits & 0xff);
    tensor.data[2 * i + 1] = static_cast<char>(bits >> 8);
  }
}

constexpr uint16_t kNan = 0x7fc0;
constexpr uint16_t kInfinity = 0x7f80;

// Model `moe` with row `row` of the outermost dimension of `name` changed;
// `fraction` of the row, from its end.
class BadModel {
 public:
  BadModel(const std::string& name, int64_t row, uint16_t bits,
           int64_t fraction = 1) {
    TensorSpecs tensors = ReadTensors(kMoe);
    TensorSpec& tensor = tensors.at(name);
    int64_t size = 1;
    for (size_t i = 1; i < tensor.shape.size(); ++i) size *= tensor.shape[i];
    const int64_t count = size / fraction;
    Fill(tensor, (row + 1) * size - count, count, bits);
    folder_.Write("config.json", ReadBytes(std::string(kMoe) + "/config.json"));
    folder_.Write("model.safetensors", SafetensorsBytes(tensors));
  }
  const std::string& path() const { return folder_.path(); }

 private:
  TempFolder folder_;
};

// A group that serves.
std::unique_ptr<EngineGroup> Serving(const std::string& model_dir,
                                     int tp_size) {
  auto group = std::make_unique<EngineGroup>(model_dir, tp_size, kLimits);
  group->Start(1);
  group->AwaitReady();
  EXPECT_EQ(group->board().Read().state, WorkerState::kReady)
      << group->board().Read().detail;
  return group;
}

void ExpectNonFinite(const TokenRecorder::Result& result) {
  EXPECT_FALSE(result.finished.has_value());
  EXPECT_EQ(result.error.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(ReasonOf(result.error).word, "NON_FINITE_LOGITS");
}

class NonFinite : public testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(TpSizes, NonFinite, testing::Values(1, 2, 4),
                         testing::PrintToStringParamName());

TEST_P(NonFinite, ATokenWithoutNumbersEndsItsOwnRequestAlone) {
  const std::vector<int32_t> good = {5, 6, 7, 8, 9};
  const std::vector<int32_t> expected =
      Serving(kMoe, 1)->Ask(Ask("clean", good, 12)).ids();
  const BadModel model(kEmbed, /*row=*/77, kNan);
  const auto group = Serving(model.path(), GetParam());

  TokenRecorder bad, beside;
  ASSERT_OK(group->inbox().Submit(Ask("bad", {5, 77, 9}, 12), &bad));
  ASSERT_OK(group->inbox().Submit(Ask("beside", good, 12), &beside));

  ExpectNonFinite(bad.Wait());
  EXPECT_EQ(beside.Wait().ids(), expected);
}

// Slots and blocks are reused at once; nothing of the last user may be left.
TEST_P(NonFinite, WhatComesAfterIsUntouched) {
  const std::vector<int32_t> good(40, 11);
  const std::vector<int32_t> expected =
      Serving(kMoe, 1)->Ask(Ask("clean", good, 30)).ids();
  const BadModel model(kEmbed, /*row=*/77, kInfinity);
  const auto group = Serving(model.path(), GetParam());

  for (int i = 0; i < 6; ++i)
    ExpectNonFinite(group->Ask(
        Ask("bad" + std::to_string(i), std::vector<int32_t>(70, 77), 12)));

  EXPECT_EQ(group->Ask(Ask("after", good, 30)).ids(), expected);
  group->engine().Stop();
  group->Join();
  EXPECT_EQ(group->board().Read().counts.kv_blocks_used, 0);
}

// One expert, of which rank 0 holds only numbers: requests end where they are
// routed to it, whatever the number of ranks.
TEST_P(NonFinite, AnExpertWithoutNumbersEndsTheRequestsThatMeetIt) {
  constexpr int kPrompts = 24;
  const BadModel model(kDown, /*row=*/3, kNan, /*fraction=*/2);
  const auto clean = Serving(kMoe, 1);
  const auto alone = Serving(model.path(), 1);
  const auto group = Serving(model.path(), GetParam());

  int ended = 0;
  for (int i = 0; i < kPrompts; ++i) {
    const Request request = Ask("r" + std::to_string(i), {i * 20}, 2);
    const TokenRecorder::Result expected = alone->Ask(request);
    const TokenRecorder::Result result = group->Ask(request);
    EXPECT_EQ(result.ids(), expected.ids());
    EXPECT_EQ(result.error.code(), expected.error.code());
    if (result.finished.has_value()) {
      EXPECT_EQ(result.ids(), clean->Ask(request).ids());
      continue;
    }
    ExpectNonFinite(result);
    ++ended;
  }
  EXPECT_GT(ended, 0);
  EXPECT_LT(ended, kPrompts);
}

// The warm-up's prompt holds ids that a client may never use.
TEST_P(NonFinite, AWarmUpThatMeetsOneIsStillAWarmUp) {
  const std::vector<int32_t> good = {105, 106, 107};
  const std::vector<int32_t> expected =
      Serving(kMoe, 1)->Ask(Ask("clean", good, 8)).ids();
  const BadModel model(kEmbed, /*row=*/7, kNan);

  const auto group = Serving(model.path(), GetParam());

  EXPECT_EQ(group->Ask(Ask("good", good, 8)).ids(), expected);
}

// Every logit is NaN, whatever is asked.
TEST_P(NonFinite, AModelThatCanSayNothingLives) {
  const BadModel model("model.language_model.norm.weight", /*row=*/3, kNan);
  const auto group = Serving(model.path(), GetParam());

  for (int i = 0; i < 3; ++i)
    ExpectNonFinite(group->Ask(Ask("r" + std::to_string(i), {5, 6}, 4)));

  group->engine().Stop();
  EXPECT_THAT(group->Join(), Each(IsOk()));
}

}  // namespace
}  // namespace phalanx
