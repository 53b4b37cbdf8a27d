// What a sampler makes of penalties, biases, masks and given ids: which of its
// answers they change, and which they must not.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <xmmintrin.h>

#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "common/reason.h"
#include "tests/support/status_matchers.h"
#include "worker/engine/adjusted_logits.h"
#include "worker/engine/sampler.h"

namespace phalanx {
namespace {

using testing::_;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A spec that owns what it refers to.
struct Ask {
  Sampling sampling = {};
  std::vector<int32_t> context = {};
  int64_t prompt_tokens = 0;
  std::vector<int32_t> held_back = {};
  bool logprobs = false;
  int top_n = 0;
  std::optional<int32_t> given = {};

  SampleSpec spec() const {
    return {.sampling = &sampling,
            .context = context,
            .prompt_tokens = prompt_tokens,
            .held_back = held_back,
            .logprobs = logprobs,
            .top_n = top_n,
            .given = given};
  }
};

Token SampleOf(const std::vector<float>& logits, const Ask& ask) {
  Sampler sampler(static_cast<int64_t>(logits.size()));
  absl::StatusOr<Token> token = sampler.Sample(logits, ask.spec());
  EXPECT_OK(token);
  return token.ok() ? *token : Token{};
}

std::vector<float> RandomLogits(int64_t size, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 2);
  std::vector<float> logits(size);
  for (float& logit : logits) logit = normal(random);
  return logits;
}

// --- The adjusted logits decide -------------------------------------------

TEST(SamplerAdjusted, TakesTheLargestAdjustedLogitAtTemperatureZero) {
  EXPECT_EQ(SampleOf({1, 3, 2}, {.sampling = {.logit_bias = {{0, 2.5f}}}}).id,
            0);
}

TEST(SamplerAdjusted, GivesATieAfterAdjustingToTheLowerId) {
  EXPECT_EQ(SampleOf({1, 3, 2}, {.sampling = {.logit_bias = {{0, 2}}}}).id, 0);
}

class SamplerFilters : public testing::TestWithParam<Sampling> {};

// For every way to draw: the same as without operations from logits that were
// adjusted before.
TEST_P(SamplerFilters, DrawsFromTheAdjustedLogitsWhatItWouldFromThoseAlone) {
  constexpr int64_t kVocabulary = 700;
  const std::vector<float> logits = RandomLogits(kVocabulary, 5);
  Sampler sampler(kVocabulary);
  AdjustedLogits adjusted(kVocabulary);
  for (int32_t draw = 0; draw < 200; ++draw) {
    Ask ask = {.sampling = GetParam(),
               .context = {3, 4, 5, 3, 600, draw},
               .prompt_tokens = 2,
               .held_back = {6}};
    ask.sampling.seed = static_cast<uint64_t>(draw);
    ask.sampling.presence = 0.5f;
    ask.sampling.frequency = 0.25f;
    ask.sampling.repetition = 1.5f;
    ask.sampling.logit_bias = {{7, 4}, {8, -4}};
    ask.sampling.banned_ids = {9, 10};
    const auto values = adjusted.Of(logits, ask.spec());
    const std::vector<float> before(values.begin(), values.end());
    Ask plain = {.sampling = GetParam(), .context = ask.context};
    plain.sampling.seed = ask.sampling.seed;

    ASSERT_EQ(sampler.Sample(logits, ask.spec())->id,
              SampleOf(before, plain).id);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Ways, SamplerFilters,
    testing::Values(Sampling{.temperature = 0}, Sampling{.temperature = 1},
                    Sampling{.temperature = 1, .top_k = 30},
                    Sampling{.temperature = 1, .top_p = 0.8f},
                    Sampling{.temperature = 2, .min_p = 0.1f},
                    Sampling{.temperature = 0.7f,
                             .top_p = 0.9f,
                             .top_k = 40,
                             .min_p = 0.05f}));

TEST(SamplerAdjusted, NeverDrawsWhatIsBannedHeldBackOrNotAllowed) {
  const std::vector<float> logits(8, 1);
  Sampler sampler(8);
  Ask ask = {.sampling = {.temperature = 2,
                          .allowed_ids = {1, 2, 3, 4},
                          .banned_ids = {2, 7}},
             .held_back = {3}};
  for (ask.sampling.seed = 0; ask.sampling.seed < 500; ++ask.sampling.seed)
    ASSERT_THAT(sampler.Sample(logits, ask.spec())->id, testing::AnyOf(1, 4));
}

// --- The raw logits are reported -------------------------------------------

TEST(SamplerAdjusted, ReportsLogProbabilitiesOfTheRawLogits) {
  const std::vector<float> logits = {1, 2, 3, 2.5f};
  const double log_sum =
      std::log(std::exp(1) + std::exp(2) + std::exp(3) + std::exp(2.5));

  const Token token = SampleOf(
      logits,
      {.sampling = {.presence = 2, .logit_bias = {{0, 50}}, .banned_ids = {2}},
       .context = {1},
       .logprobs = true,
       .top_n = 2});

  EXPECT_EQ(token.id, 0);
  EXPECT_NEAR(token.logprob, 1 - log_sum, 1e-6);
  ASSERT_EQ(token.top.size(), 2u);
  EXPECT_EQ(token.top[0].id, 2);
  EXPECT_NEAR(token.top[0].logprob, 3 - log_sum, 1e-6);
  EXPECT_EQ(token.top[1].id, 3);
}

TEST(SamplerAdjusted, ReportsOfAGivenIdWhatADrawOfItWouldReport) {
  const std::vector<float> logits = RandomLogits(500, 3);
  const Token drawn = SampleOf(
      logits,
      {.sampling = {.allowed_ids = {77}}, .logprobs = true, .top_n = 3});

  const Token given = SampleOf(logits, {.sampling = {.temperature = 1},
                                        .logprobs = true,
                                        .top_n = 3,
                                        .given = 77});

  EXPECT_EQ(given, drawn);
}

TEST(SamplerAdjusted, AGivenIdNeedNotBeOneThatMayBeDrawn) {
  EXPECT_EQ(SampleOf({1, 2, 3}, {.sampling = {.allowed_ids = {1}},
                                 .held_back = {0},
                                 .logprobs = true,
                                 .given = 0})
                .id,
            0);
}

TEST(SamplerAdjusted, AGivenIdOfLogitMinusInfinityHasThatLogProbability) {
  EXPECT_EQ(SampleOf({1, -kInfinity}, {.logprobs = true, .given = 1}).logprob,
            -kInfinity);
}

// --- Nothing left ----------------------------------------------------------

void ExpectNonFinite(const std::vector<float>& logits, const Ask& ask) {
  Sampler sampler(static_cast<int64_t>(logits.size()));
  const absl::Status status = sampler.Sample(logits, ask.spec()).status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInternal, _));
  EXPECT_EQ(ReasonOf(status).word, "NON_FINITE_LOGITS");
}

TEST(SamplerAdjusted, IsNonFiniteLogitsWhereMasksLeaveMinusInfinityAlone) {
  ExpectNonFinite({1, -kInfinity, 2}, {.sampling = {.allowed_ids = {1}}});
  ExpectNonFinite({1, -kInfinity},
                  {.sampling = {.temperature = 1}, .held_back = {0}});
}

TEST(SamplerAdjusted, IsNonFiniteLogitsForANanThatIsBanned) {
  ExpectNonFinite({1, std::nanf("")}, {.sampling = {.banned_ids = {1}}});
}

TEST(SamplerAdjusted, IsNonFiniteLogitsForANanBesideAGivenId) {
  ExpectNonFinite({1, std::nanf("")}, {.logprobs = true, .given = 0});
}

// --- The same again --------------------------------------------------------

// A stream that was cut and replayed: what was emitted counts like what was
// drawn.
TEST(SamplerAdjusted, GoesOnFromEmittedTokensAsFromDrawnOnes) {
  const auto run = [](std::vector<int32_t> tokens) {
    Sampler sampler(64);
    Ask ask = {.sampling = {.temperature = 1,
                            .seed = 9,
                            .presence = 0.3f,
                            .frequency = 0.2f,
                            .repetition = 1.2f,
                            .repetition_window = 7},
               .context = std::move(tokens),
               .prompt_tokens = 2};
    while (ask.context.size() < 80) {
      const auto position = static_cast<uint32_t>(ask.context.size());
      ask.context.push_back(
          sampler.Sample(RandomLogits(64, position), ask.spec())->id);
    }
    return ask.context;
  };
  const std::vector<int32_t> whole = run({1, 2});

  for (const int64_t cut : {3, 17, 79})
    EXPECT_EQ(run({whole.begin(), whole.begin() + cut}), whole) << cut;
}

// As every thread that computes has it: denormal numbers count as 0.
class FlushedDenormals {
 public:
  FlushedDenormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040); }
  ~FlushedDenormals() { _mm_setcsr(before_); }

 private:
  const unsigned before_;
};

TEST(SamplerAdjusted, TakesADenormalTemperatureForZero) {
  const std::vector<float> logits = {1, 3, 2.9f};
  const Ask ask = {.sampling = {.temperature = 1e-40f}};
  EXPECT_EQ(SampleOf(logits, ask).id, 1);

  const FlushedDenormals flushed;

  EXPECT_EQ(SampleOf(logits, ask).id, 1);
}

TEST(SamplerAdjusted, SurvivesDenormalsInEveryField) {
  const FlushedDenormals flushed;
  const Ask ask = {.sampling = {.temperature = 1,
                                .top_p = 1e-40f,
                                .min_p = 1e-40f,
                                .presence = 1e-40f,
                                .frequency = 1e-40f,
                                .repetition = 1e-40f,
                                .logit_bias = {{2, 1e-40f}}},
                   .context = {0, 3}};

  EXPECT_EQ(SampleOf({-1, 1, 1e-40f, 2}, ask).id, 3);
}

}  // namespace
}  // namespace phalanx
