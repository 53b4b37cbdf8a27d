#include "worker/engine/adjusted_logits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace phalanx {
namespace {

using testing::ElementsAre;

using Logits = std::vector<float>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kMost = std::numeric_limits<float>::max();

// A spec that owns what it refers to.
struct Adjustment {
  Sampling sampling = {};
  std::vector<int32_t> prompt = {};
  std::vector<int32_t> output = {};
  std::vector<int32_t> held_back = {};
  std::vector<int32_t> context = {};

  SampleSpec spec() {
    context = prompt;
    context.insert(context.end(), output.begin(), output.end());
    SampleSpec spec;
    spec.sampling = &sampling;
    spec.context = context;
    spec.prompt_tokens = static_cast<int64_t>(prompt.size());
    spec.held_back = held_back;
    return spec;
  }
};

Logits Adjusted(const Logits& logits, Adjustment adjustment) {
  AdjustedLogits adjusted(static_cast<int64_t>(logits.size()));
  const auto values = adjusted.Of(logits, adjustment.spec());
  return {values.begin(), values.end()};
}

TEST(AdjustedLogits, AreTheLogitsThemselvesWhereNothingChanges) {
  const Logits logits = {1, 2};
  AdjustedLogits adjusted(2);
  Adjustment nothing = {.prompt = {0}, .output = {1, 1}};

  EXPECT_EQ(adjusted.Of(logits, nothing.spec()).data(), logits.data());
}

TEST(AdjustedLogits, LeaveTheRawOnesAlone) {
  const Logits logits = {1, 2};
  AdjustedLogits adjusted(2);
  Adjustment ban = {.sampling = {.banned_ids = {1}}};

  (void)adjusted.Of(logits, ban.spec());

  EXPECT_THAT(logits, ElementsAre(1, 2));
}

// --- Repetition ------------------------------------------------------------

TEST(AdjustedLogits, RepetitionDividesWhatIsPositiveAndMultipliesTheRest) {
  EXPECT_THAT(Adjusted({3, -3, 0, 3, -3},
                       {.sampling = {.repetition = 1.5f}, .prompt = {0, 1, 2}}),
              ElementsAre(2, -4.5f, 0, 3, -3));
}

TEST(AdjustedLogits, RepetitionIsAppliedOnceHoweverOftenAnIdOccurs) {
  EXPECT_THAT(Adjusted({8, 8}, {.sampling = {.repetition = 2},
                                .prompt = {0, 0},
                                .output = {0, 0}}),
              ElementsAre(4, 8));
}

TEST(AdjustedLogits, RepetitionBelowOneFavours) {
  EXPECT_THAT(Adjusted({2, -2, 2},
                       {.sampling = {.repetition = 0.5f}, .prompt = {0, 1}}),
              ElementsAre(4, -1, 2));
}

struct Window {
  int32_t size;
  Logits adjusted;  // Of five logits of 2 after ids 0, 1 and then 2, 3, 0.
};

class RepetitionWindow : public testing::TestWithParam<Window> {};

TEST_P(RepetitionWindow, LooksAtTheMostRecentTokensOfPromptAndOutput) {
  EXPECT_EQ(Adjusted({2, 2, 2, 2, 2},
                     {.sampling = {.repetition = 2,
                                   .repetition_window = GetParam().size},
                      .prompt = {0, 1},
                      .output = {2, 3, 0}}),
            GetParam().adjusted);
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, RepetitionWindow,
    testing::Values(Window{0, {1, 1, 1, 1, 2}}, Window{1, {1, 2, 2, 2, 2}},
                    Window{2, {1, 2, 2, 1, 2}}, Window{3, {1, 2, 1, 1, 2}},
                    Window{4, {1, 1, 1, 1, 2}}, Window{5, {1, 1, 1, 1, 2}},
                    Window{6, {1, 1, 1, 1, 2}},
                    Window{std::numeric_limits<int32_t>::max(),
                           {1, 1, 1, 1, 2}}));

// --- Frequency and presence ------------------------------------------------

TEST(AdjustedLogits, FrequencyCountsTheOutputAlone) {
  EXPECT_THAT(Adjusted({1, 1, 1}, {.sampling = {.frequency = 0.25f},
                                   .prompt = {0, 1, 1},
                                   .output = {1, 2, 1, 1}}),
              ElementsAre(1, 0.25f, 0.75f));
}

TEST(AdjustedLogits, PresenceCountsAnIdOfTheOutputOnce) {
  EXPECT_THAT(Adjusted({1, 1, 1}, {.sampling = {.presence = 0.25f},
                                   .prompt = {0, 1},
                                   .output = {1, 2, 1}}),
              ElementsAre(1, 0.75f, 0.75f));
}

TEST(AdjustedLogits, NegativePenaltiesFavour) {
  EXPECT_THAT(
      Adjusted({1, 1}, {.sampling = {.presence = -0.5f, .frequency = -0.25f},
                        .output = {1, 1}}),
      ElementsAre(1, 2));
}

TEST(AdjustedLogits, TheFirstTokenHasNoOutputBeforeIt) {
  EXPECT_THAT(Adjusted({1, 2}, {.sampling = {.presence = 1, .frequency = 1},
                                .prompt = {0, 1}}),
              ElementsAre(1, 2));
}

TEST(AdjustedLogits, FrequencyAndPresenceIgnoreTheWindow) {
  EXPECT_THAT(
      Adjusted({4, 4, 4}, {.sampling = {.presence = 1, .repetition_window = 1},
                           .output = {0, 1}}),
      ElementsAre(3, 3, 4));
}

TEST(AdjustedLogits, RepetitionComesBeforeFrequencyAndPresence) {
  EXPECT_THAT(
      Adjusted({8},
               {.sampling = {.presence = 1, .frequency = 2, .repetition = 2},
                .output = {0, 0}}),
      ElementsAre(8.0f / 2 - 2 * 2 - 1));
}

// --- Bias ------------------------------------------------------------------

TEST(AdjustedLogits, BiasIsAddedToItsIds) {
  EXPECT_THAT(
      Adjusted({1, 2, 3}, {.sampling = {.logit_bias = {{0, 5}, {2, -100}}}}),
      ElementsAre(6, 2, -97));
}

TEST(AdjustedLogits, BiasComesAfterThePenalties) {
  EXPECT_THAT(
      Adjusted({8}, {.sampling = {.repetition = 2, .logit_bias = {{0, 10}}},
                     .prompt = {0}}),
      ElementsAre(14));
}

// --- Masks -----------------------------------------------------------------

TEST(AdjustedLogits, AllButAllowedIdsAreMinusInfinity) {
  EXPECT_THAT(
      Adjusted({1, 2, 3, 4}, {.sampling = {.logit_bias = {{1, 1}, {2, 1}},
                                           .allowed_ids = {1, 3}}}),
      ElementsAre(-kInfinity, 3, -kInfinity, 4));
}

TEST(AdjustedLogits, BannedIdsAreMinusInfinityThoughAllowedAndFavoured) {
  EXPECT_THAT(Adjusted({1, 2, 3}, {.sampling = {.logit_bias = {{2, 100}},
                                                .allowed_ids = {1, 2},
                                                .banned_ids = {0, 2}}}),
              ElementsAre(-kInfinity, 2, -kInfinity));
}

TEST(AdjustedLogits, WhatIsHeldBackIsMinusInfinity) {
  EXPECT_THAT(Adjusted({1, 2, 3}, {.held_back = {2, 0}}),
              ElementsAre(-kInfinity, 2, -kInfinity));
}

// --- The ends of the range -------------------------------------------------

TEST(AdjustedLogits, MinusInfinityStaysWhateverIsDoneToIt) {
  EXPECT_THAT(Adjusted({-kInfinity, 1}, {.sampling = {.presence = -2,
                                                      .frequency = -2,
                                                      .repetition = 0.25f,
                                                      .logit_bias = {{0, 100}},
                                                      .allowed_ids = {0}},
                                         .output = {0, 0}}),
              ElementsAre(-kInfinity, -kInfinity));
}

TEST(AdjustedLogits, WhatWouldOverflowStaysAtTheEndOfTheRange) {
  EXPECT_THAT(
      Adjusted({8, 1}, {.sampling = {.repetition = 2e-38f}, .prompt = {0, 1}}),
      ElementsAre(kMost, 1 / 2e-38f));
  EXPECT_THAT(
      Adjusted({1, -kMost}, {.sampling = {.repetition = 10}, .prompt = {1}}),
      ElementsAre(1, -kMost));
}

// --- All together ----------------------------------------------------------

// The contract in its plainest form: each id on its own.
Logits SlowlyAdjusted(Logits logits, const Adjustment& a) {
  const Sampling& s = a.sampling;
  std::vector<int32_t> window = a.prompt;
  window.insert(window.end(), a.output.begin(), a.output.end());
  if (s.repetition_window > 0)
    while (window.size() > static_cast<size_t>(s.repetition_window))
      window.erase(window.begin());
  const auto has = [](const std::vector<int32_t>& ids, int32_t id) {
    return std::find(ids.begin(), ids.end(), id) != ids.end();
  };
  for (int32_t id = 0; id < static_cast<int32_t>(logits.size()); ++id) {
    float& logit = logits[id];
    if (s.repetition != 1 && has(window, id))
      logit = logit > 0 ? logit / s.repetition : logit * s.repetition;
    const auto count = std::count(a.output.begin(), a.output.end(), id);
    if (count > 0) {
      logit = logit - static_cast<float>(count) * s.frequency;
      logit = logit - s.presence;
    }
    for (const auto& [biased, bias] : s.logit_bias)
      if (biased == id) logit = logit + bias;
    if ((!s.allowed_ids.empty() && !has(s.allowed_ids, id)) ||
        has(s.banned_ids, id) || has(a.held_back, id))
      logit = -kInfinity;
  }
  return logits;
}

std::vector<int32_t> SomeIds(std::mt19937& random, size_t most, int32_t vocab) {
  std::vector<int32_t> ids(random() % (most + 1));
  for (int32_t& id : ids) id = static_cast<int32_t>(random() % vocab);
  return ids;
}

std::vector<int32_t> Ascending(std::vector<int32_t> ids) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

// One object for all, so that nothing of a call may be left for the next.
TEST(AdjustedLogits, AgreeWithTheSlowFormForAnyMixOfOperations) {
  constexpr int32_t kVocabulary = 40;
  std::mt19937 random(11);
  std::normal_distribution<float> normal(0, 4);
  const auto sometimes = [&](float value, float off) {
    return random() % 2 == 0 ? value : off;
  };
  AdjustedLogits adjusted(kVocabulary);
  for (int round = 0; round < 2000; ++round) {
    Logits logits(kVocabulary);
    for (float& logit : logits) logit = normal(random);
    Adjustment a = {
        .sampling = {.presence = sometimes(normal(random) / 4, 0),
                     .frequency = sometimes(normal(random) / 4, 0),
                     .repetition =
                         sometimes(0.3f + std::abs(normal(random)), 1),
                     .repetition_window = static_cast<int32_t>(random() % 30)},
        .prompt = SomeIds(random, 30, kVocabulary),
        .output = SomeIds(random, 30, kVocabulary),
        .held_back = SomeIds(random, 3, kVocabulary)};
    for (const int32_t id : Ascending(SomeIds(random, 10, kVocabulary)))
      a.sampling.logit_bias.emplace_back(id, normal(random));
    if (random() % 3 == 0)
      a.sampling.allowed_ids = Ascending(SomeIds(random, 20, kVocabulary));
    if (random() % 3 == 0)
      a.sampling.banned_ids = Ascending(SomeIds(random, 20, kVocabulary));

    const auto values = adjusted.Of(logits, a.spec());

    ASSERT_EQ(Logits(values.begin(), values.end()), SlowlyAdjusted(logits, a))
        << round;
  }
}

}  // namespace
}  // namespace phalanx
