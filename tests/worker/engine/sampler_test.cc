#include "worker/engine/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "common/reason.h"
#include "tests/support/status_matchers.h"
#include "worker/engine/philox.h"
#include "worker/engine/vocabulary_exp.h"

namespace phalanx {
namespace {

using testing::_;
using testing::ElementsAre;
using testing::FloatNear;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A spec that owns what it refers to.
struct Draw {
  Sampling sampling;
  int64_t position = 0;
  bool logprobs = false;
  int top_n = 0;
  std::vector<int32_t> context = {};
  std::vector<int32_t> held_back = {};
  std::optional<int32_t> given = {};

  SampleSpec spec() {
    context.resize(position);
    return {.sampling = &sampling,
            .context = context,
            .prompt_tokens = 0,
            .held_back = held_back,
            .logprobs = logprobs,
            .top_n = top_n,
            .given = given};
  }
};

Token SampleOf(const std::vector<float>& logits, Draw spec) {
  Sampler sampler(static_cast<int64_t>(logits.size()));
  absl::StatusOr<Token> token = sampler.Sample(logits, spec.spec());
  EXPECT_OK(token);
  return token.ok() ? *token : Token{};
}

Draw Greedy(int top_n) {
  Draw spec;
  spec.logprobs = true;
  spec.top_n = top_n;
  return spec;
}

Draw Drawn(float temperature = 1) {
  return {.sampling = {.temperature = temperature, .seed = 42}};
}

// Every token that some position draws.
std::set<int32_t> Support(const std::vector<float>& logits, Draw spec,
                          int positions = 2000) {
  Sampler sampler(static_cast<int64_t>(logits.size()));
  std::set<int32_t> drawn;
  for (spec.position = 0; spec.position < positions; ++spec.position)
    drawn.insert(sampler.Sample(logits, spec.spec())->id);
  return drawn;
}

TEST(Sampler, TakesTheLargestLogitAtTemperatureZero) {
  EXPECT_EQ(SampleOf({0.5f, -1, 3, 2.9f}, {}).id, 2);
}

TEST(Sampler, GivesATieToTheLowerId) {
  EXPECT_EQ(SampleOf({1, 7, 7, 7}, {}).id, 1);
}

class SamplerRefusal : public testing::TestWithParam<std::vector<float>> {};

TEST_P(SamplerRefusal, IsNonFiniteLogits) {
  Sampler sampler(3);

  const absl::Status status = sampler.Sample(GetParam(), {}).status();

  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInternal, _));
  EXPECT_EQ(ReasonOf(status).word, "NON_FINITE_LOGITS");
}

INSTANTIATE_TEST_SUITE_P(
    Logits, SamplerRefusal,
    testing::Values(std::vector<float>{1, std::nanf(""), 2},
                    std::vector<float>{std::nanf(""), 1, 2},
                    std::vector<float>{1, 2, kInfinity},
                    std::vector<float>(3, std::nanf("")),
                    std::vector<float>(3, -kInfinity)));

// Of every length that ends within a vector, a block, or after several.
TEST(Sampler, FindsTheLargestAndWhatIsNoNumberWhereverTheyAre) {
  for (const int64_t size : {1, 15, 16, 17, 256, 257, 300, 600}) {
    Sampler sampler(size);
    std::vector<float> logits(size, -2);
    for (int64_t at = 0; at < size; ++at) {
      logits[at] = -1;
      ASSERT_EQ(sampler.Sample(logits, Draw().spec())->id, at);
      logits[at] = std::nanf("");
      ASSERT_FALSE(sampler.Sample(logits, Draw().spec()).ok()) << at;
      logits[at] = -2;
    }
  }
}

TEST(Sampler, NeverDrawsALogitOfMinusInfinity) {
  EXPECT_THAT(Support({-kInfinity, 0, -kInfinity, 0, -kInfinity}, Drawn(10)),
              ElementsAre(1, 3));
}

TEST(Sampler, GivesTheLogProbabilityOfTheRawLogits) {
  const std::vector<float> logits = {1, 2, 3, -kInfinity};
  const double log_sum = std::log(std::exp(1) + std::exp(2) + std::exp(3));

  const Token token = SampleOf(
      logits,
      {.sampling = {.temperature = 0.1f, .top_k = 1}, .logprobs = true});

  EXPECT_EQ(token.id, 2);
  EXPECT_NEAR(token.logprob, 3 - log_sum, 1e-6);
}

TEST(Sampler, ListsTheMostLikelyFirstAndTiesByLowerId) {
  const Token token = SampleOf({-0.0f, 5, 0.0f, 5, -kInfinity}, Greedy(3));

  ASSERT_EQ(token.top.size(), 3u);
  EXPECT_EQ(token.top[0].id, 1);
  EXPECT_EQ(token.top[1].id, 3);
  EXPECT_EQ(token.top[2].id, 0);
  EXPECT_EQ(token.top[0].logprob, token.logprob);
}

TEST(Sampler, ListsNoLogitOfMinusInfinity) {
  EXPECT_EQ(SampleOf({1, -kInfinity, 2}, Greedy(20)).top.size(), 2u);
}

TEST(Sampler, GivesNoLogProbabilityUnasked) {
  Draw spec = Greedy(2);
  spec.logprobs = false;

  const Token token = SampleOf({1, 2}, spec);

  EXPECT_EQ(token.logprob, 0);
  EXPECT_TRUE(token.top.empty());
}

TEST(Sampler, DrawsTheSameWhateverWasSampledBefore) {
  const std::vector<float> logits = {0, 0.1f, 0.2f, 0.3f, 0.4f, 0.5f};
  Draw spec = Drawn();
  spec.position = 77;
  const Token fresh = SampleOf(logits, spec);
  Sampler used(6);
  Draw other = Drawn(3);
  other.sampling.top_p = 0.5f;
  ASSERT_OK(used.Sample(std::vector<float>{5, 4, 3, 2, 1, 0}, other.spec()));

  EXPECT_EQ(used.Sample(logits, spec.spec())->id, fresh.id);
}

// How many of 64 positions draw alike under two specs; about 1 of 16 by chance.
int Alike(const Draw& a, const Draw& b) {
  const std::vector<float> logits(16, 0);
  int alike = 0;
  for (int64_t position = 0; position < 64; ++position) {
    Draw first = a, second = b;
    first.position += position;
    second.position += position;
    alike += SampleOf(logits, first).id == SampleOf(logits, second).id;
  }
  return alike;
}

TEST(Sampler, DrawsOtherwiseAtAnotherPosition) {
  Draw other = Drawn();
  other.position = 1;
  EXPECT_LT(Alike(Drawn(), other), 20);
}

TEST(Sampler, DrawsOtherwiseForAnotherChoice) {
  Draw other = Drawn();
  other.sampling.choice_index = 1;
  EXPECT_LT(Alike(Drawn(), other), 20);
}

TEST(Sampler, DrawsOtherwiseForAnotherSeedInItsUpperHalfToo) {
  Draw other = Drawn();
  other.sampling.seed += uint64_t{1} << 32;
  EXPECT_LT(Alike(Drawn(), other), 20);
}

TEST(Sampler, KeepsTheKLargestWithTiesToTheLowerId) {
  Draw spec = Drawn();
  spec.sampling.top_k = 2;

  EXPECT_THAT(Support({1, 2, 1, 1, 0}, spec), ElementsAre(0, 1));
}

// Weights 8, 4, 2, 1, 1 of 16.
const std::vector<float> kHalves = {std::log(2.0f), std::log(8.0f),
                                    std::log(1.0f), std::log(4.0f),
                                    std::log(1.0f)};

TEST(Sampler, KeepsTheFewestThatReachTopP) {
  Draw spec = Drawn();
  spec.sampling.top_p = 0.7f;

  EXPECT_THAT(Support(kHalves, spec), ElementsAre(1, 3));
}

TEST(Sampler, CutsTopPAmongEqualLogitsByLowerId) {
  Draw spec = Drawn();
  spec.sampling.top_p = 0.92f;

  EXPECT_THAT(Support(kHalves, spec), ElementsAre(0, 1, 2, 3));
}

TEST(Sampler, KeepsTheLargestWhateverTopP) {
  Draw spec = Drawn();
  spec.sampling.top_p = std::numeric_limits<float>::min();

  EXPECT_THAT(Support(kHalves, spec), ElementsAre(1));
}

TEST(Sampler, TakesTopPOfWhatTopKLeaves) {
  Draw spec = Drawn();
  spec.sampling.top_k = 2;     // 8 and 4 of 12,
  spec.sampling.top_p = 0.6f;  // of which 8 are 0.67.

  EXPECT_THAT(Support(kHalves, spec), ElementsAre(1));
}

TEST(Sampler, KeepsWhatHasMinPOfTheLargest) {
  Draw spec = Drawn();
  spec.sampling.min_p = 0.2f;

  EXPECT_THAT(Support(kHalves, spec), ElementsAre(0, 1, 3));
}

TEST(Sampler, KeepsTheLargestAtMinPOne) {
  Draw spec = Drawn();
  spec.sampling.min_p = 1;

  EXPECT_THAT(Support(kHalves, spec), ElementsAre(1));
}

TEST(Sampler, IsGreedyAtATemperatureNearZero) {
  EXPECT_THAT(Support({1, 1.5f, 1.4f}, Drawn(1e-30f)), ElementsAre(1));
}

TEST(Sampler, DrawsEachTokenAsOftenAsItsProbabilitySays) {
  constexpr int kDraws = 40'000;
  Sampler sampler(5);
  std::map<int32_t, int> counts;
  Draw spec = Drawn();

  for (spec.position = 0; spec.position < kDraws; ++spec.position)
    ++counts[sampler.Sample(kHalves, spec.spec())->id];

  // Five standard deviations of a binomial count.
  const std::vector<double> probabilities = {2 / 16., 8 / 16., 1 / 16., 4 / 16.,
                                             1 / 16.};
  for (int32_t id = 0; id < 5; ++id) {
    const double p = probabilities[id];
    EXPECT_NEAR(counts[id], kDraws * p, 5 * std::sqrt(kDraws * p * (1 - p)));
  }
}

// The contract in its plainest form: sort everything, try every length.
int32_t SlowlyDrawn(const std::vector<float>& logits, Draw spec) {
  const Sampling& sampling = spec.sampling;
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
  std::vector<float> weight(logits.size());
  VocabularyExp(logits, logits[order[0]], sampling.temperature, weight);
  const auto sum = [&](std::vector<int32_t> ids) {
    std::sort(ids.begin(), ids.end());
    double total = 0;
    for (const int32_t id : ids) total += weight[id];
    return total;
  };
  const auto first = [&](size_t n) {
    return std::vector<int32_t>(order.begin(), order.begin() + n);
  };
  if (sampling.top_k > 0)
    order = first(std::min<size_t>(sampling.top_k, order.size()));
  if (sampling.top_p < 1) {
    const double target = double{sampling.top_p} * sum(order);
    size_t n = 1;
    while (sum(first(n)) < target) ++n;
    order = first(n);
  }
  std::erase_if(order, [&](int32_t id) { return weight[id] < sampling.min_p; });

  const auto position = static_cast<uint32_t>(spec.position);
  const auto bits =
      Philox4x32({position, 0, static_cast<uint32_t>(sampling.choice_index), 0},
                 {static_cast<uint32_t>(sampling.seed),
                  static_cast<uint32_t>(sampling.seed >> 32)});
  const double u =
      static_cast<double>((uint64_t{bits[1]} << 32 | bits[0]) >> 11) * 0x1p-53;
  const double target = u * sum(order);
  std::sort(order.begin(), order.end());
  double running = 0;
  for (const int32_t id : order) {
    running += weight[id];
    if (running > target) return id;
  }
  return -1;
}

TEST(Sampler, AgreesWithTheSlowFormOnRandomLogitsWithAndWithoutTies) {
  std::mt19937 random(7);
  const auto pick = [&](auto... options) {
    const std::vector<double> all = {static_cast<double>(options)...};
    return all[random() % all.size()];
  };
  for (int round = 0; round < 400; ++round) {
    std::vector<float> logits(static_cast<size_t>(pick(1, 2, 17, 100, 300)));
    std::normal_distribution<float> normal(0,
                                           static_cast<float>(pick(0, 1, 5)));
    const bool coarse = random() % 2 == 0;
    for (float& logit : logits) {
      logit = normal(random);
      if (coarse) logit = std::round(logit);
    }
    const Draw spec = {
        .sampling = {.temperature = static_cast<float>(pick(0.3, 1, 2)),
                     .top_p = static_cast<float>(pick(0.01, 0.5, 0.95, 1)),
                     .top_k = static_cast<int32_t>(pick(0, 1, 5, 50, 1000)),
                     .min_p = static_cast<float>(pick(0, 0, 0.05, 0.5)),
                     .seed = random(),
                     .choice_index = static_cast<int32_t>(random() % 3)},
        .position = static_cast<int64_t>(random() % 5000)};

    ASSERT_EQ(SampleOf(logits, spec).id, SlowlyDrawn(logits, spec)) << round;
  }
}

// Beyond what is selected by a heap.
TEST(Sampler, AgreesWithTheSlowFormForALargeTopK) {
  std::mt19937 random(8);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> logits(4000);
  for (float& logit : logits) logit = std::round(normal(random) * 64) / 64;
  Draw spec = Drawn(2);
  spec.sampling.top_k = 1500;

  for (spec.position = 0; spec.position < 50; ++spec.position)
    ASSERT_EQ(SampleOf(logits, spec).id, SlowlyDrawn(logits, spec));
}

TEST(Sampler, GivesFiniteLogProbabilitiesForHugeLogits) {
  const Token token = SampleOf({3e38f, -3e38f}, Greedy(0));

  EXPECT_THAT(token.logprob, FloatNear(0, 1e-6f));
}

TEST(SamplerDeathTest, RefusesLogitsOfAnotherVocabulary) {
  Sampler sampler(3);

  EXPECT_DEATH((void)sampler.Sample(std::vector<float>{1, 2}, {}),
               "vocab_size");
}

}  // namespace
}  // namespace phalanx
