#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/kernels/cpu/array.h"

namespace phalanx {
namespace {

struct Routed {
  Routed(int64_t tokens, int64_t k, int64_t experts)
      : expert(tokens, k),
        weight(tokens, k),
        offsets(experts + 1),
        order(tokens * k) {}

  Routing routing() const { return {expert, weight, offsets, order}; }
  bool operator==(const Routed& other) const {
    return expert.values() == other.expert.values() &&
           SameBits(weight.values(), other.weight.values()) &&
           offsets.values() == other.offsets.values() &&
           order.values() == other.order.values();
  }

  Array<int32_t> expert;
  Array<float> weight;
  Array<int32_t> offsets;
  Array<int32_t> order;
};

std::vector<Routed> RouteEveryWay(const Array<float>& logits, int64_t tokens,
                                  int64_t k, int64_t experts,
                                  bool renormalise = true) {
  return EveryWay([&](const KernelTable& table, ThreadPool& pool) {
    Routed routed(tokens, k, experts);
    table.route(pool, logits, renormalise, routed.routing());
    return routed;
  });
}

// The k experts a sort would choose, in ascending order.
std::vector<int32_t> Chosen(const float* logits, int64_t experts, int64_t k) {
  std::vector<int32_t> ids(experts);
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(),
                   [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
  ids.resize(k);
  std::sort(ids.begin(), ids.end());
  return ids;
}

TEST(Route, TakesTheLargestInAscendingOrderOfId) {
  constexpr int64_t kTokens = 50, kExperts = 37, kChosen = 5;
  Random random(1);
  const Array<float> logits = random.F32(2, kTokens, kExperts);
  for (const Routed& r : RouteEveryWay(logits, kTokens, kChosen, kExperts)) {
    for (int64_t t = 0; t < kTokens; ++t) {
      const std::vector<int32_t> ids(&r.expert[t * kChosen],
                                     &r.expert[t * kChosen] + kChosen);
      EXPECT_EQ(ids, Chosen(&logits[t * kExperts], kExperts, kChosen));
    }
  }
}

TEST(Route, TiesGoToTheLowerId) {
  Array<float> logits(1, 20);
  logits[4] = logits[11] = logits[17] = 1.0f;
  for (const Routed& r : RouteEveryWay(logits, 1, 2, 20))
    EXPECT_EQ(r.expert.values(), (std::vector<int32_t>{4, 11}));
}

TEST(Route, EqualLogitsChooseTheFirstExperts) {
  const Array<float> logits(1, 20);
  for (const Routed& r : RouteEveryWay(logits, 1, 3, 20))
    EXPECT_EQ(r.expert.values(), (std::vector<int32_t>{0, 1, 2}));
}

TEST(Route, NanLogitsStillChooseDistinctExperts) {
  Array<float> logits(1, 20);
  for (float& v : logits.values()) v = NAN;
  logits[7] = -1.0f;
  for (const Routed& r : RouteEveryWay(logits, 1, 3, 20))
    EXPECT_EQ(r.expert.values(), (std::vector<int32_t>{0, 1, 7}));
}

TEST(Route, WeightsAreTheSoftmaxOverAllExperts) {
  constexpr int64_t kTokens = 20, kExperts = 40, kChosen = 4;
  Random random(2);
  const Array<float> logits = random.F32(3, kTokens, kExperts);
  for (const bool renormalise : {false, true}) {
    for (const Routed& r :
         RouteEveryWay(logits, kTokens, kChosen, kExperts, renormalise)) {
      for (int64_t t = 0; t < kTokens; ++t) {
        double all = 0, chosen = 0;
        for (int64_t e = 0; e < kExperts; ++e)
          all += std::exp(double(logits[t * kExperts + e]));
        const auto term = [&](int64_t j) {
          const int64_t e = r.expert[t * kChosen + j];
          return std::exp(double(logits[t * kExperts + e]));
        };
        for (int64_t j = 0; j < kChosen; ++j) chosen += term(j);
        for (int64_t j = 0; j < kChosen; ++j) {
          const double expected = term(j) / (renormalise ? chosen : all);
          // exp errs by an ulp of 2^-23 and by its argument's rounding, which
          // is an ulp of at most 16.
          EXPECT_NEAR(r.weight[t * kChosen + j], expected, expected * 0x1p-19);
        }
      }
    }
  }
}

TEST(Route, OrderHoldsEveryChoiceByExpertThenToken) {
  constexpr int64_t kTokens = 30, kExperts = 16, kChosen = 3;
  Random random(3);
  const Array<float> logits = random.F32(1, kTokens, kExperts);
  for (const Routed& r : RouteEveryWay(logits, kTokens, kChosen, kExperts)) {
    std::vector<int32_t> expected(kTokens * kChosen);
    std::iota(expected.begin(), expected.end(), 0);
    std::stable_sort(
        expected.begin(), expected.end(),
        [&](int32_t a, int32_t b) { return r.expert[a] < r.expert[b]; });
    EXPECT_EQ(r.order.values(), expected);
    for (int64_t e = 0; e < kExperts; ++e)
      for (int64_t i = r.offsets[e]; i < r.offsets[e + 1]; ++i)
        EXPECT_EQ(r.expert[r.order[i]], e);
    EXPECT_EQ(r.offsets[kExperts], kTokens * kChosen);
  }
}

TEST(Route, BitsAreTheSameInEverySetOnAnyNumberOfThreads) {
  constexpr int64_t kTokens = 300, kExperts = 200, kChosen = 8;
  Random random(4);
  const Array<float> logits = random.F32(1, kTokens, kExperts);
  const auto results = RouteEveryWay(logits, kTokens, kChosen, kExperts);
  for (const Routed& r : results) EXPECT_TRUE(r == results[0]);
}

}  // namespace
}  // namespace phalanx
