// Time of one row of logits through the sampler, at the vocabulary of the large
// models: sample_bench [vocab_size]. Medians, each way of sampling in turn.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "common/check.h"
#include "worker/engine/sampler.h"

namespace phalanx {
namespace {

constexpr int64_t kVocabulary = 248'320;
constexpr int kRounds = 41;
constexpr int64_t kContext = 8192;

struct Way {
  const char* name;
  Sampling sampling;
  bool logprobs = false;
  int top_n = 0;
};

std::vector<Way> Ways() {
  std::vector<Way> ways = {
      {.name = "greedy", .sampling = {}},
      {.name = "greedy, 5 log-probabilities",
       .sampling = {},
       .logprobs = true,
       .top_n = 5},
      {.name = "temperature 1", .sampling = {.temperature = 1}},
      {.name = "temperature 1, 5 log-probabilities",
       .sampling = {.temperature = 1},
       .logprobs = true,
       .top_n = 5},
      {.name = "top_k 20, top_p 0.95",
       .sampling = {.temperature = 0.6f, .top_p = 0.95f, .top_k = 20}},
      {.name = "top_p 0.95", .sampling = {.temperature = 1, .top_p = 0.95f}},
      {.name = "min_p 0.05", .sampling = {.temperature = 1, .min_p = 0.05f}},
      {.name = "greedy, penalties",
       .sampling = {.presence = 0.5f, .frequency = 0.5f, .repetition = 1.1f}},
      {.name = "temperature 1, penalties",
       .sampling = {.temperature = 1,
                    .presence = 0.5f,
                    .frequency = 0.5f,
                    .repetition = 1.1f}},
  };
  ways.push_back({.name = "temperature 1, 100 allowed ids",
                  .sampling = {.temperature = 1}});
  for (int32_t id = 0; id < 100; ++id)
    ways.back().sampling.allowed_ids.push_back(7 * id);
  return ways;
}

double MicrosecondsOf(Sampler& sampler, std::span<const float> logits,
                      const SampleSpec& spec) {
  const auto start = std::chrono::steady_clock::now();
  CHECK(sampler.Sample(logits, spec).ok());
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now() - start)
      .count();
}

// A few likely tokens and a long tail, as a trained model gives.
std::vector<float> Logits(int64_t vocab_size) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 2.5f);
  std::vector<float> logits(vocab_size);
  for (float& logit : logits) logit = normal(random);
  for (int i = 0; i < 20; ++i)
    logits[random() % logits.size()] = 16 + 0.2f * static_cast<float>(i);
  return logits;
}

int Run(int64_t vocab_size) {
  const std::vector<float> logits = Logits(vocab_size);
  std::vector<int32_t> context(kContext);
  std::mt19937 random(2);
  for (int32_t& id : context)
    id = static_cast<int32_t>(random() % logits.size());
  Sampler sampler(vocab_size);
  const std::vector<Way> ways = Ways();
  std::vector<std::vector<double>> times(ways.size());
  for (int round = 0; round < kRounds; ++round) {
    context.back() = round;
    for (size_t i = 0; i < ways.size(); ++i) {
      const SampleSpec spec = {
          .sampling = &ways[i].sampling,
          .context = std::span(context).first(kContext - round),
          .prompt_tokens = kContext / 2,
          .held_back = {},
          .logprobs = ways[i].logprobs,
          .top_n = ways[i].top_n,
          .given = std::nullopt};
      times[i].push_back(MicrosecondsOf(sampler, logits, spec));
    }
  }
  for (size_t i = 0; i < ways.size(); ++i) {
    std::sort(times[i].begin(), times[i].end());
    std::printf("%-36s p10=%7.0f p50=%7.0f us\n", ways[i].name,
                times[i][kRounds / 10], times[i][kRounds / 2]);
  }
  return 0;
}

}  // namespace
}  // namespace phalanx

int main(int argc, char** argv) {
  return phalanx::Run(argc > 1 ? std::atoll(argv[1]) : phalanx::kVocabulary);
}
