#include "worker/experts/expert_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/status_matchers.h"
#include "tests/worker/experts/cache_rig.h"

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

const std::vector<int> kAllOfFour = {0, 1, 2, 3};

TEST(ExpertCache, PlacesShowEachNeededExpertAndNoOther) {
  CacheRig rig(/*layers=*/2, /*experts=*/4, {.slots = 4});
  rig.bank.Open();
  rig.BeginAndWait(0, {1, 2});

  const ExpertView view = rig.BeginAndWait(1, {0, 3});

  EXPECT_EQ(rig.MarksIn(view), rig.MarksOf(1, {0, 3}));
}

TEST(ExpertCache, NeedsAreFetchedInAscendingOrder) {
  CacheRig rig(2, 4, {.slots = 4});
  rig.bank.Open();

  rig.BeginAndWait(1, {0, 2, 3});

  EXPECT_THAT(rig.bank.started(),
              ElementsAre(ExpertId{1, 0}, ExpertId{1, 2}, ExpertId{1, 3}));
}

TEST(ExpertCache, HintsAtAllThatItWillFetch) {
  CacheRig rig(2, 4, {.slots = 4});
  rig.bank.Open();
  rig.BeginAndWait(0, {1});

  rig.BeginAndWait(0, {0, 1, 3});

  EXPECT_THAT(rig.bank.hinted(),
              ElementsAre(ExpertId{0, 1}, ExpertId{0, 0}, ExpertId{0, 3}));
}

TEST(ExpertCache, AnExpertThatIsThereIsNotFetchedAgain) {
  CacheRig rig(2, 4, {.slots = 4});
  rig.bank.Open();
  rig.BeginAndWait(0, {0, 1});
  rig.BeginAndWait(1, {0});

  const ExpertView view = rig.BeginAndWait(0, {0, 1, 2});

  EXPECT_EQ(rig.MarksIn(view), rig.MarksOf(0, {0, 1, 2}));
  EXPECT_THAT(rig.bank.started(), ElementsAre(ExpertId{0, 0}, ExpertId{0, 1},
                                              ExpertId{1, 0}, ExpertId{0, 2}));
}

TEST(ExpertCache, WaitReturnsOnlyWhenAllNeedsAreThere) {
  CacheRig rig(2, 4, {.slots = 4});
  rig.Begin(0, {0, 1});
  std::vector<ExpertId> ended;

  std::thread engine([&] {
    rig.cache->Wait(0);
    ended = rig.bank.ended();
  });
  rig.bank.Allow({0, 0});
  rig.bank.AwaitEnded({0, 0});
  rig.bank.AwaitStarted({0, 1});
  rig.bank.Allow({0, 1});
  engine.join();

  EXPECT_THAT(ended, ElementsAre(ExpertId{0, 0}, ExpertId{0, 1}));
}

TEST(ExpertCache, AStepThatNeedsMostOfALayerFetchesTheNextBehindIt) {
  CacheRig rig(3, 4, {.slots = 8});
  rig.bank.Open();

  rig.BeginAndWait(0, {0, 1, 3});
  rig.bank.AwaitEnded({1, 3});

  EXPECT_THAT(rig.bank.started(),
              ElementsAre(ExpertId{0, 0}, ExpertId{0, 1}, ExpertId{0, 3},
                          ExpertId{1, 0}, ExpertId{1, 1}, ExpertId{1, 2},
                          ExpertId{1, 3}));
}

TEST(ExpertCache, NothingIsPrefetchedForAStepThatNeedsFew) {
  CacheRig rig(2, 8, {.slots = 16});
  rig.bank.Open();

  rig.BeginAndWait(0, {0, 1, 2, 3, 4});
  rig.cache.reset();

  EXPECT_EQ(rig.bank.started().size(), 5u);
}

TEST(ExpertCache, NothingIsPrefetchedWhereTwoLayersDoNotFit) {
  CacheRig rig(2, 4, {.slots = 7});
  rig.bank.Open();

  rig.BeginAndWait(0, kAllOfFour);
  rig.cache.reset();

  EXPECT_EQ(rig.bank.started().size(), 4u);
}

TEST(ExpertCache, NothingIsPrefetchedBehindTheLastLayer) {
  CacheRig rig(2, 4, {.slots = 8});
  rig.bank.Open();

  rig.BeginAndWait(1, kAllOfFour);
  rig.cache.reset();

  EXPECT_EQ(rig.bank.started().size(), 4u);
}

TEST(ExpertCache, WaitDoesNotWaitForPrefetches) {
  CacheRig rig(2, 4, {.slots = 8});
  for (const int e : kAllOfFour) rig.bank.Allow({0, e});

  const ExpertView view = rig.BeginAndWait(0, kAllOfFour);

  EXPECT_EQ(rig.MarksIn(view), rig.MarksOf(0, kAllOfFour));
  EXPECT_EQ(rig.bank.ended().size(), 4u);
}

TEST(ExpertCache, ANeedOvertakesPrefetchesThatHaveNotStarted) {
  CacheRig rig(3, 4, {.slots = 8});
  for (const int e : kAllOfFour) rig.bank.Allow({0, e});
  rig.BeginAndWait(0, kAllOfFour);
  rig.bank.AwaitStarted({1, 0});

  rig.Begin(2, {3});
  rig.bank.Open();
  const ExpertView view = rig.cache->Wait(2);

  EXPECT_EQ(rig.MarksIn(view), rig.MarksOf(2, {3}));
  EXPECT_THAT(rig.bank.started(),
              ElementsAre(ExpertId{0, 0}, ExpertId{0, 1}, ExpertId{0, 2},
                          ExpertId{0, 3}, ExpertId{1, 0}, ExpertId{2, 3}));
}

TEST(ExpertCache, OfItsPrefetchesALayerAwaitsOnlyWhatItNeeds) {
  CacheRig rig(2, 4, {.slots = 8, .fetch_threads = 3});
  for (const int e : kAllOfFour) rig.bank.Allow({0, e});
  for (const int e : {2, 3}) rig.bank.Allow({1, e});
  rig.BeginAndWait(0, kAllOfFour);
  rig.bank.AwaitEnded({1, 3});

  const ExpertView view = rig.BeginAndWait(1, {2, 3});

  EXPECT_EQ(rig.MarksIn(view), rig.MarksOf(1, {2, 3}));
  EXPECT_FALSE(GatedBank::Contains(rig.bank.ended(), {1, 0}));
  EXPECT_FALSE(GatedBank::Contains(rig.bank.ended(), {1, 1}));
}

TEST(ExpertCache, APrefetchInFlightIsAwaitedAndNotRepeated) {
  CacheRig rig(2, 4, {.slots = 8});
  for (const int e : kAllOfFour) rig.bank.Allow({0, e});
  rig.BeginAndWait(0, kAllOfFour);
  rig.bank.AwaitStarted({1, 0});

  rig.Begin(1, {0});
  rig.bank.Open();
  const ExpertView view = rig.cache->Wait(1);

  EXPECT_EQ(rig.MarksIn(view), rig.MarksOf(1, {0}));
  EXPECT_EQ(rig.bank.started().size(), 5u);
}

TEST(ExpertCache, TheLeastRecentlyUsedGoesFirst) {
  CacheRig rig(2, 4, {.slots = 4});
  rig.bank.Open();
  rig.cache->Count(false);
  rig.BeginAndWait(0, {0, 1, 2});
  rig.BeginAndWait(0, {0});
  rig.BeginAndWait(1, {0, 1});  // The free slot, and that of (0, 1).
  rig.cache->Count(true);

  rig.BeginAndWait(0, {0, 2});

  EXPECT_EQ(rig.cache->counters().hits, 2);
  EXPECT_EQ(rig.cache->counters().fetches, 0);
}

TEST(ExpertCache, ALayersNeedsDoNotMakeRoomForEachOther) {
  CacheRig rig(2, 4, {.slots = 4});
  rig.bank.Open();
  rig.BeginAndWait(0, kAllOfFour);
  rig.BeginAndWait(1, {0, 1, 2});  // (0, 3) is left, and is the oldest.

  const ExpertView view = rig.BeginAndWait(0, kAllOfFour);

  EXPECT_EQ(rig.MarksIn(view), rig.MarksOf(0, kAllOfFour));
  EXPECT_EQ(rig.cache->counters().hits, 1);
}

TEST(ExpertCache, APrefetchTakesNoSlotOfItsOwnLayer) {
  CacheRig rig(3, 4, {.slots = 8});
  rig.bank.Open();
  rig.cache->Count(false);
  rig.BeginAndWait(1, {0});        // The oldest, and in the layer to come.
  rig.BeginAndWait(2, {0, 1, 2});  // These make room.
  rig.BeginAndWait(0, kAllOfFour);
  rig.bank.AwaitStarted({1, 3});  // Those before it are ready by now.
  rig.cache->Count(true);

  rig.BeginAndWait(1, {0, 1, 2});

  EXPECT_EQ(rig.cache->counters().hits, 3);
}

TEST(ExpertCache, OfAStepGivenUpInMidLayerOnlyStartedFetchesGoOn) {
  CacheRig rig(2, 4, {.slots = 5});
  rig.Begin(0, {0, 1});
  rig.bank.AwaitStarted({0, 0});  // Holds one of the five slots.

  rig.Begin(1, kAllOfFour);
  rig.bank.Open();
  const ExpertView view = rig.cache->Wait(1);

  EXPECT_EQ(rig.MarksIn(view), rig.MarksOf(1, kAllOfFour));
  EXPECT_THAT(rig.bank.started(),
              ElementsAre(ExpertId{0, 0}, ExpertId{1, 0}, ExpertId{1, 1},
                          ExpertId{1, 2}, ExpertId{1, 3}));
}

TEST(ExpertCache, ALayerThatFindsNoSlotAwaitsWhatAGivenUpStepFetches) {
  CacheRig rig(2, 4, {.slots = 4});
  rig.Begin(0, {0, 1});
  rig.bank.AwaitStarted({0, 0});  // Holds one of the four slots.

  std::thread opener([&] { rig.bank.Open(); });
  const ExpertView view = rig.BeginAndWait(1, kAllOfFour);
  opener.join();

  EXPECT_EQ(rig.MarksIn(view), rig.MarksOf(1, kAllOfFour));
  EXPECT_EQ(rig.cache->counters().slots_used, 4);
}

TEST(ExpertCache, EndsWithTheFetchesThatHaveStarted) {
  CacheRig rig(2, 4, {.slots = 4, .fetch_threads = 2});
  rig.Begin(0, kAllOfFour);
  rig.bank.AwaitStarted({0, 0});
  rig.bank.AwaitStarted({0, 1});

  std::thread opener([&] { rig.bank.Open(); });
  rig.cache.reset();
  opener.join();

  EXPECT_EQ(rig.bank.ended().size(), rig.bank.started().size());
  for (int i = 0; i < kMemoryComponents; ++i)
    EXPECT_EQ(rig.backend.allocated_bytes(static_cast<MemoryComponent>(i)), 0);
}

TEST(ExpertCache, CountsLookupsFetchesAndBytes) {
  CacheRig rig(2, 4, {.slots = 4});
  rig.bank.Open();
  rig.BeginAndWait(0, {0, 1});
  rig.BeginAndWait(0, {1, 2});

  const ExpertCacheCounters counters = rig.cache->counters();

  EXPECT_EQ(counters.slots, 4);
  EXPECT_EQ(counters.slots_used, 3);
  EXPECT_EQ(counters.hits, 1);
  EXPECT_EQ(counters.fetches, 3);
  EXPECT_EQ(counters.fetched_bytes, 3 * GatedBank::kExpertBytes);
}

TEST(ExpertCache, CountsBytesThatWerePrefetchedAndTheirHits) {
  CacheRig rig(2, 4, {.slots = 8});
  rig.bank.Open();
  rig.BeginAndWait(0, kAllOfFour);
  rig.bank.AwaitEnded({1, 2});
  rig.bank.AwaitStarted({1, 3});  // The one before it is ready by now.
  rig.BeginAndWait(1, {0, 2});

  const ExpertCacheCounters counters = rig.cache->counters();

  EXPECT_EQ(counters.hits, 2);
  EXPECT_EQ(counters.fetches, 4);
  EXPECT_GE(counters.fetched_bytes, 7 * GatedBank::kExpertBytes);
}

TEST(ExpertCache, WhatDoesNotCountStillTakesSlots) {
  CacheRig rig(2, 4, {.slots = 4});
  rig.bank.Open();
  rig.cache->Count(false);

  rig.BeginAndWait(0, {0, 1});

  const ExpertCacheCounters counters = rig.cache->counters();
  EXPECT_EQ(counters.hits + counters.fetches + counters.fetched_bytes, 0);
  EXPECT_EQ(counters.imbalance, 0);
  EXPECT_EQ(counters.slots_used, 2);
}

TEST(ExpertCache, CountsTokensOnceHoweverManyLayersTheyGoThrough) {
  CacheRig rig(2, 4, {.slots = 8});
  rig.bank.Open();

  rig.BeginAndWait(0, {0, 1, 3});
  rig.BeginAndWait(1, {0, 1, 2});

  const ExpertCacheCounters counters = rig.cache->counters();
  EXPECT_EQ(counters.tokens, 3);
  EXPECT_EQ(counters.fetched_bytes_per_token(),
            static_cast<double>(counters.fetched_bytes) / 3);
}

TEST(ExpertCache, TheHitRatioIsThatOfAllLookups) {
  CacheRig rig(1, 4, {.slots = 4});
  rig.bank.Open();

  rig.BeginAndWait(0, {0, 1, 3});
  rig.BeginAndWait(0, {0});

  EXPECT_EQ(rig.cache->counters().hit_ratio(), 0.25);
}

TEST(ExpertCache, ImbalanceIsTheMostOverTheMean) {
  CacheRig rig(2, 4, {.slots = 4});
  rig.bank.Open();

  rig.Begin(0, {0, 1, 1, 1, 2, 2, 1, 0});  // 2, 4, 2 and 0 tokens.

  EXPECT_EQ(rig.cache->counters().imbalance, 2.0);
}

TEST(ExpertCache, HasNoMoreSlotsThanThereAreExperts) {
  const CacheRig rig(3, 4, {.slots = 1000});

  EXPECT_EQ(rig.cache->counters().slots, 12);
}

class CountingObserver final : public FetchObserver {
 public:
  void OnFetch(double seconds, int64_t bytes) override {
    if (seconds >= 0 && bytes == GatedBank::kExpertBytes) ++fetches;
  }
  std::atomic<int> fetches{0};
};

TEST(ExpertCache, TheObserverSeesEachFetch) {
  CountingObserver observer;
  CacheRig rig(2, 4, {.slots = 4}, &observer);
  rig.bank.Open();

  rig.BeginAndWait(0, {0, 1});
  rig.BeginAndWait(0, {1, 2});

  EXPECT_EQ(observer.fetches.load(), 3);
}

absl::Status CreateStatus(const ExpertCacheConfig& cache) {
  ReferenceBackend backend({.memory_limit_bytes = 1 << 20});
  ModelConfig config;
  config.num_experts = 4;
  config.hidden_size = 1024;
  config.layer_types.resize(1000);
  LocalShape shape;
  shape.expert_width = 16;
  const GatedBank bank;
  return ExpertCache::Create(backend, config, shape, bank, cache).status();
}

TEST(ExpertCache, RefusesFewerSlotsThanALayerHas) {
  EXPECT_THAT(CreateStatus({.slots = 3}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("slots is 3; must be at least num_experts, "
                                 "4")));
}

TEST(ExpertCache, RefusesToFetchWithoutAThread) {
  EXPECT_THAT(CreateStatus({.slots = 4, .fetch_threads = 0}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("fetch_threads is 0; must be 1..64")));
}

TEST(ExpertCache, SlotsBeyondTheBackendsMemoryAreNamed) {
  EXPECT_THAT(CreateStatus({.slots = 1000}),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("expert slots gate_up needs 65536000 bytes")));
}

// Any order of layers and needs, some given up: what Wait shows is right, and
// the counters add up.
TEST(ExpertCache, ShowsTheRightExpertsWhateverWasAskedBefore) {
  for (const uint32_t seed : {1u, 2u, 3u, 4u}) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    CacheRig rig(3, 6,
                 {.slots = 6 + 3 * static_cast<int64_t>(seed % 3),
                  .fetch_threads = 1 + static_cast<int>(seed % 3)});
    rig.bank.Open();
    int64_t lookups = 0;
    for (int step = 0; step < 500; ++step) {
      const int layer =
          random() % 4 == 0 ? static_cast<int>(random() % 3) : step % 3;
      std::vector<int> needs;
      const uint32_t density = 1 + random() % 4;
      for (int e = 0; e < 6; ++e)
        if (random() % 4 < density) needs.push_back(e);
      lookups += static_cast<int64_t>(needs.size());
      rig.Begin(layer, needs);
      if (random() % 8 == 0) continue;
      const ExpertView view = rig.cache->Wait(layer);
      ASSERT_EQ(rig.MarksIn(view), rig.MarksOf(layer, needs));
    }
    const ExpertCacheCounters counters = rig.cache->counters();
    EXPECT_EQ(counters.hits + counters.fetches, lookups);
    EXPECT_GT(counters.hits, 0);
    rig.cache.reset();
    EXPECT_EQ(rig.bank.ended().size(), rig.bank.started().size());
  }
}

}  // namespace
}  // namespace phalanx
