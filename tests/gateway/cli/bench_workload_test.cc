#include "gateway/cli/bench_workload.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

constexpr int64_t kRequests = 20000;

WorkloadConfig Config() {
  return {.seed = 7,
          .prompt_tokens = std::nullopt,
          .output_tokens = std::nullopt,
          .shared_prefix_tokens = 0,
          .text = false,
          .max_model_len = int64_t{1} << 20,
          .vocab_size = 1000};
}

BenchWorkload Made(const WorkloadConfig& config) {
  absl::StatusOr<BenchWorkload> workload = BenchWorkload::Create(config);
  EXPECT_OK(workload.status());
  return *std::move(workload);
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

TEST(BenchWorkload, GivesTheSameRequestsForTheSameSeed) {
  const BenchWorkload one = Made(Config());
  const BenchWorkload two = Made(Config());

  for (const int64_t i : {0, 3, 1}) {
    EXPECT_EQ(one.Request(i).prompt_ids, two.Request(i).prompt_ids);
    EXPECT_EQ(one.Request(i).output_tokens, two.Request(i).output_tokens);
    EXPECT_EQ(one.Request(i).sampling_seed, two.Request(i).sampling_seed);
  }
}

TEST(BenchWorkload, GivesOtherRequestsForAnotherSeedOrIndex) {
  WorkloadConfig other = Config();
  other.seed = 8;
  const BenchWorkload workload = Made(Config());

  EXPECT_NE(workload.Request(0).prompt_ids, workload.Request(1).prompt_ids);
  EXPECT_NE(workload.Request(0).prompt_ids, Made(other).Request(0).prompt_ids);
}

TEST(BenchWorkload, DrawsLengthsOfTheMediansAndSigmasThatItDocuments) {
  const BenchWorkload workload = Made(Config());
  std::vector<double> prompts, outputs;
  double deviation = 0;
  for (int64_t i = 0; i < kRequests; ++i) {
    const BenchRequest request = workload.Request(i);
    prompts.push_back(static_cast<double>(request.prompt_ids.size()));
    outputs.push_back(static_cast<double>(request.output_tokens));
    deviation += std::pow(std::log(outputs.back() / kOutputMedianTokens), 2);
  }

  // The median of n log-normal draws is within 4 * 1.25 * sigma / sqrt(n).
  EXPECT_NEAR(std::log(Median(prompts) / kPromptMedianTokens), 0, 0.045);
  EXPECT_NEAR(std::log(Median(outputs) / kOutputMedianTokens), 0, 0.035);
  EXPECT_NEAR(std::sqrt(deviation / kRequests), kOutputSigma, 0.02);
}

TEST(BenchWorkload, ClipsWhatItDrawsToTheModelsContext) {
  WorkloadConfig config = Config();
  config.max_model_len = 120;
  config.shared_prefix_tokens = 20;
  const BenchWorkload workload = Made(config);
  int64_t longest = 0;
  for (int64_t i = 0; i < 1000; ++i) {
    const BenchRequest request = workload.Request(i);
    const int64_t prompt = std::ssize(request.prompt_ids) - 20;
    EXPECT_GE(prompt, kLeastDrawnTokens);
    EXPECT_LE(prompt, 50);
    EXPECT_GE(request.output_tokens, kLeastDrawnTokens);
    longest = std::max(longest, prompt + 20 + request.output_tokens);
  }

  EXPECT_EQ(longest, 120);
}

TEST(BenchWorkload, KeepsLengthsThatAreFixed) {
  WorkloadConfig config = Config();
  config.prompt_tokens = 3;
  config.output_tokens = 9;
  const BenchRequest request = Made(config).Request(5);

  EXPECT_EQ(request.prompt_ids.size(), 3u);
  EXPECT_EQ(request.output_tokens, 9);
}

TEST(BenchWorkload, RefusesFixedLengthsThatDoNotFit) {
  WorkloadConfig config = Config();
  config.max_model_len = 100;
  config.shared_prefix_tokens = 50;
  config.prompt_tokens = 40;
  config.output_tokens = 11;

  const auto workload = BenchWorkload::Create(config);

  EXPECT_EQ(workload.status(),
            absl::InvalidArgumentError(
                "shared prefix, prompt and output are 101 tokens; they must be "
                "at most the model's max_model_len, 100"));
}

TEST(BenchWorkload, FitsTheSmallestContext) {
  WorkloadConfig config = Config();
  config.max_model_len = 2;
  const BenchRequest request = Made(config).Request(0);

  EXPECT_EQ(request.prompt_ids.size(), 1u);
  EXPECT_EQ(request.output_tokens, 1);
}

TEST(BenchWorkload, BeginsEveryPromptWithTheSharedPrefix) {
  WorkloadConfig config = Config();
  config.shared_prefix_tokens = 64;
  config.prompt_tokens = 4;
  const BenchWorkload workload = Made(config);
  const std::vector<int32_t> one = workload.Request(0).prompt_ids;
  const std::vector<int32_t> two = workload.Request(1).prompt_ids;

  EXPECT_TRUE(std::equal(one.begin(), one.begin() + 64, two.begin()));
  EXPECT_FALSE(std::equal(one.begin() + 64, one.end(), two.begin() + 64));
}

TEST(BenchWorkload, TakesIdsOfTheWholeVocabulary) {
  WorkloadConfig config = Config();
  config.vocab_size = 5;
  config.prompt_tokens = 200;
  const BenchRequest request = Made(config).Request(0);

  EXPECT_EQ(std::set(request.prompt_ids.begin(), request.prompt_ids.end()),
            (std::set<int32_t>{0, 1, 2, 3, 4}));
}

TEST(BenchWorkload, WritesWordsWhereTextIsWanted) {
  WorkloadConfig config = Config();
  config.text = true;
  config.prompt_tokens = 5;
  const BenchRequest request = Made(config).Request(0);

  EXPECT_TRUE(request.prompt_ids.empty());
  EXPECT_EQ(std::count(request.text.begin(), request.text.end(), ' '), 4);
}

TEST(BenchWorkload, CancelsTheShareThatIsAskedForWithinTheAnswer) {
  WorkloadConfig config = Config();
  config.cancel_share = 0.25;
  const BenchWorkload workload = Made(config);
  const BenchWorkload undisturbed = Made(Config());
  int64_t cancelled = 0;
  for (int64_t i = 0; i < kRequests; ++i) {
    const BenchRequest request = workload.Request(i);
    if (!request.cancel_after_tokens) continue;
    ++cancelled;
    EXPECT_GE(*request.cancel_after_tokens, 0);
    EXPECT_LT(*request.cancel_after_tokens, request.output_tokens);
  }

  // Within 4 deviations of a binomial.
  EXPECT_NEAR(static_cast<double>(cancelled) / kRequests, 0.25, 0.0125);
  EXPECT_EQ(workload.Request(1).prompt_ids, undisturbed.Request(1).prompt_ids);
  EXPECT_FALSE(undisturbed.Request(1).cancel_after_tokens.has_value());
}

TEST(ArrivalTimes, AreAPoissonProcessOfTheRate) {
  ArrivalTimes arrivals(/*seed=*/1, /*rate=*/50);
  double last = 0;
  double squares = 0;
  for (int64_t i = 0; i < kRequests; ++i) {
    const double next = arrivals.Next();
    ASSERT_GE(next, last);
    squares += (next - last) * (next - last);
    last = next;
  }

  // Gaps are exponential: mean 1/50, mean square 2/50^2, within 4 deviations.
  EXPECT_NEAR(last / kRequests * 50, 1, 4 / std::sqrt(kRequests));
  EXPECT_NEAR(squares / kRequests * 50 * 50, 2, 4 * 4.5 / std::sqrt(kRequests));
}

TEST(ArrivalTimes, AreTheSameForTheSameSeed) {
  ArrivalTimes one(3, 1);
  ArrivalTimes two(3, 1);
  ArrivalTimes other(4, 1);

  EXPECT_EQ(one.Next(), two.Next());
  EXPECT_NE(one.Next(), other.Next());
}

}  // namespace
}  // namespace phalanx
