// The dense model at every size that the promise knows: the golden one has too
// few heads for eight ranks, so this one is made of the golden model of
// experts, whose shared experts become the MLPs.

#include "worker/model/mlp.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"
#include "tests/support/tp_group.h"
#include "tests/worker/checkpoint/checkpoint_files.h"
#include "tests/worker/model/sum_recorder.h"

namespace phalanx {
namespace {

constexpr int64_t kMaxTokens = 128;
constexpr char kMoe[] = GOLDEN_DIR "/models/moe";

void WriteDenseModel(const TempFolder& folder) {
  nlohmann::json config = ReadJson(std::string(kMoe) + "/config.json");
  nlohmann::json& text = config["text_config"];
  config["model_type"] = "qwen3_5";
  text["model_type"] = "qwen3_5_text";
  text["intermediate_size"] = text["shared_expert_intermediate_size"];
  for (const char* key :
       {"num_experts", "num_experts_per_tok", "moe_intermediate_size",
        "shared_expert_intermediate_size"})
    text.erase(key);
  const std::string shared = ".mlp.shared_expert.";
  TensorSpecs dense;
  for (const auto& [name, tensor] : ReadTensors(kMoe)) {
    const size_t at = name.find(shared);
    if (at != std::string::npos)
      dense[absl::StrCat(name.substr(0, at), ".mlp.",
                         name.substr(at + shared.size()))] = tensor;
    else if (!absl::StrContains(name, ".mlp."))
      dense[name] = tensor;
  }
  folder.Write("config.json", config.dump());
  folder.Write("model.safetensors", SafetensorsBytes(dense));
}

struct Answer {
  LogitRows logits;
  std::vector<std::string> sums;  // See SumRecorder.
};

// A prompt of 70 tokens, in chunks of 32, and 8 steps after it.
Answer AnswerOf(const std::string& model_dir, int tp_size) {
  auto group = TpGroup::MustCreate({.model_dir = model_dir,
                                    .tp_size = tp_size,
                                    .backends = BestCpuBackends(),
                                    .limits = LaneLimits(1, kMaxTokens)});
  SumRecorder* recorder = nullptr;
  for (int r = tp_size - 1; r >= 0; --r) {
    auto wrapped = std::make_unique<SumRecorder>(
        std::move(group->rank(r).comm), 2 * group->config().num_layers());
    recorder = wrapped.get();
    group->rank(r).comm = std::move(wrapped);
  }
  std::vector<int32_t> prompt;
  for (int32_t i = 0; i < 70; ++i) prompt.push_back((5 + 37 * i) % 510);
  Lane lane = TpGroup::MakeLane(0, 0, kMaxTokens);
  Answer answer;
  answer.logits = Continue(*group, lane, prompt, 32, 8);
  answer.sums = recorder->rows();
  return answer;
}

class DenseModel : public testing::TestWithParam<int> {
 protected:
  DenseModel() { WriteDenseModel(folder_); }

  const TempFolder folder_;
};

TEST_P(DenseModel, GivesTheLogitsOfOneRank) {
  const LogitRows ours = AnswerOf(folder_.path(), GetParam()).logits;

  const LogitRows alone = AnswerOf(folder_.path(), 1).logits;
  ASSERT_EQ(ours.size(), alone.size());
  for (size_t row = 0; row < ours.size(); ++row)
    EXPECT_EQ(std::memcmp(ours[row].data(), alone[row].data(),
                          alone[row].size() * sizeof(float)),
              0)
        << "row " << row;
}

// Before they are rounded, which would hide most wrong orders of summation.
TEST_P(DenseModel, GivesTheSumsOfOneRank) {
  const std::vector<std::string> ours =
      AnswerOf(folder_.path(), GetParam()).sums;

  const std::vector<std::string> alone = AnswerOf(folder_.path(), 1).sums;
  ASSERT_EQ(ours.size(), alone.size());
  for (size_t i = 0; i < ours.size(); ++i)
    EXPECT_TRUE(ours[i] == alone[i])
        << (i % 2 == 0 ? "mixer" : "MLP") << " of layer " << i / 2;
}

INSTANTIATE_TEST_SUITE_P(TpSizes, DenseModel, testing::Values(2, 4, 8));

}  // namespace
}  // namespace phalanx
