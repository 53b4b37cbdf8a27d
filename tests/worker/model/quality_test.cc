// How far int8 and int4 are from bf16: greedy tokens that agree, and the
// Kullback-Leibler divergence of the next token's distribution, both with the
// text given (teacher-forced). The goals hold on phalanx-mini, a trained model.
// The golden models have random weights: there no code of 8 or 4 bits could
// reach them (worker/quantise/README.md has the figures), so what is asserted
// of them is what is measured, with room.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tests/support/golden_file.h"
#include "tests/support/tp_group.h"

namespace phalanx {
namespace {

// A prompt and the answer that is fed after it.
struct Text {
  std::vector<int32_t> ids;
  size_t prompt_tokens = 0;
};

struct Model {
  std::string dir;
  std::vector<Text> texts;
};

Text TextOf(const std::vector<int32_t>& prompt,
            const std::vector<int32_t>& answer) {
  Text text = {prompt, prompt.size()};
  text.ids.insert(text.ids.end(), answer.begin(), answer.end() - 1);
  return text;
}

Model Mini() {
  Model model = {SOURCE_ROOT "/deploy/models/phalanx-mini", {}};
  for (const auto& talk : ReadGoldenJson(model.dir + "/answers.json"))
    model.texts.push_back(
        TextOf(talk.at("prompt_ids"), talk.at("greedy_bf16")));
  return model;
}

Model Golden(const std::string& name) {
  Model model = {std::string(GOLDEN_DIR) + "/models/" + name, {}};
  const std::string expected = std::string(GOLDEN_DIR) + "/expected/" + name;
  const nlohmann::json greedy = ReadGoldenJson(expected + "/greedy.json");
  for (const auto& prompt : ReadGoldenJson(expected + "/prompts.json")) {
    const std::string key = prompt.at("name");
    model.texts.push_back(
        TextOf(prompt.at("ids"), greedy.at(key).at("f32").at("tokens")));
  }
  return model;
}

// The logits of every row of every text.
std::vector<LogitRows> Logits(const Model& model, WeightFormat format) {
  size_t longest = 0;
  for (const Text& text : model.texts)
    longest = std::max(longest, text.ids.size());
  const auto most = static_cast<int64_t>(longest);
  StepPlanLimits limits = LaneLimits(1, most);
  limits.max_logit_rows = most;
  const auto group = TpGroup::MustCreate({.model_dir = model.dir,
                                          .backends = BestCpuBackends(),
                                          .limits = limits,
                                          .format = format});
  std::vector<LogitRows> logits;
  for (const Text& text : model.texts) {
    Lane lane = TpGroup::MakeLane(0, 0, most);
    PlannedSequence rows = lane.Take(text.ids, true);
    rows.logit_rows = std::ssize(text.ids);
    logits.push_back(group->MustRun({rows}));
  }
  return logits;
}

// log(sum(exp(row))).
double LogSum(const std::vector<float>& row) {
  const double most = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (const float x : row) sum += std::exp(x - most);
  return most + std::log(sum);
}

// KL(p || q) of two rows of logits.
double Divergence(const std::vector<float>& p, const std::vector<float>& q) {
  const double log_p = LogSum(p);
  const double log_q = LogSum(q);
  double divergence = 0;
  for (size_t i = 0; i < p.size(); ++i)
    divergence += std::exp(p[i] - log_p) * ((p[i] - log_p) - (q[i] - log_q));
  return divergence;
}

struct Quality {
  double agreement = 0;
  double divergence = 0;  // Mean.
};

// Over the rows that choose answers, or over those of the prompts as well.
Quality Compare(const Model& model, const std::vector<LogitRows>& bf16,
                const std::vector<LogitRows>& quantised, bool prompts) {
  int64_t rows = 0;
  int64_t agree = 0;
  double divergence = 0;
  for (size_t t = 0; t < model.texts.size(); ++t) {
    const size_t first = prompts ? 0 : model.texts[t].prompt_tokens - 1;
    for (size_t r = first; r < bf16[t].size(); ++r, ++rows) {
      agree += BestToken(bf16[t][r]) == BestToken(quantised[t][r]);
      divergence += Divergence(bf16[t][r], quantised[t][r]);
    }
  }
  const auto count = static_cast<double>(rows);
  return {static_cast<double>(agree) / count, divergence / count};
}

struct Bound {
  WeightFormat format;
  double agreement;
  double divergence;
};

void ExpectQuality(const char* name, const Model& model,
                   const std::vector<Bound>& bounds) {
  const std::vector<LogitRows> bf16 = Logits(model, WeightFormat::kBf16);
  for (const Bound& bound : bounds) {
    const std::vector<LogitRows> quantised = Logits(model, bound.format);
    for (const bool prompts : {false, true}) {
      const Quality quality = Compare(model, bf16, quantised, prompts);
      std::printf("%s %s, %s: %.2f %% agree, KL %.5f\n", name,
                  WeightFormatName(bound.format),
                  prompts ? "all rows" : "answers", 100 * quality.agreement,
                  quality.divergence);
      EXPECT_GE(quality.agreement, bound.agreement);
      EXPECT_LE(quality.divergence, bound.divergence);
    }
  }
}

TEST(Quality, ReachesTheGoalsOnThePhalanxMiniModel) {
  ExpectQuality(
      "phalanx-mini", Mini(),
      {{WeightFormat::kInt8, 0.99, 0.005}, {WeightFormat::kInt4, 0.95, 0.05}});
}

struct Case {
  const char* model;
  Bound int8;
  Bound int4;
};

class RandomModel : public testing::TestWithParam<Case> {};

TEST_P(RandomModel, IsAsCloseAsItsBitsAllow) {
  const Case& c = GetParam();
  ExpectQuality(c.model, Golden(c.model), {c.int8, c.int4});
}

constexpr Bound Int8(double agreement, double divergence) {
  return {WeightFormat::kInt8, agreement, divergence};
}
constexpr Bound Int4(double agreement, double divergence) {
  return {WeightFormat::kInt4, agreement, divergence};
}

INSTANTIATE_TEST_SUITE_P(
    Models, RandomModel,
    testing::Values(Case{"moe", Int8(0.90, 0.05), Int4(0.45, 1.7)},
                    Case{"moe_text", Int8(0.90, 0.025), Int4(0.42, 1.1)},
                    Case{"moe_fp8", Int8(0.93, 0.012), Int4(0.60, 0.75)},
                    Case{"next", Int8(0.92, 0.03), Int4(0.52, 1.5)},
                    Case{"dense", Int8(0.90, 0.05), Int4(0.48, 1.6)}),
    [](const auto& info) { return std::string(info.param.model); });

}  // namespace
}  // namespace phalanx
