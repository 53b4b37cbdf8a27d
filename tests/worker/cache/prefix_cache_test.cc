#include "worker/cache/prefix_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Optional;

using Tokens = std::vector<int32_t>;
using Blocks = std::vector<int32_t>;

// 0, 1, 2 ... but for what `last` says.
Tokens Ids(int64_t count, int32_t last = -1) {
  Tokens ids;
  for (int64_t i = 0; i < count; ++i) ids.push_back(static_cast<int32_t>(i));
  if (last >= 0) ids.back() = last;
  return ids;
}

// Blocks of 4 tokens. Sequences by hand: what they hold is in their variables.
class PrefixCacheTest : public testing::Test {
 protected:
  PrefixCacheTest() : PrefixCacheTest(10, 4) {}
  PrefixCacheTest(int64_t blocks, int64_t slots)
      : cache_({.kv_blocks = blocks, .state_slots = slots, .block_tokens = 4}) {
  }

  // A sequence computes these tokens, leaves a snapshot of them and ends.
  PrefixCache::SnapshotId Keep(const Tokens& tokens,
                               const std::string& salt = "") {
    const auto blocks =
        cache_.AllocateBlocks((static_cast<int64_t>(tokens.size()) + 3) / 4);
    const auto id =
        cache_.Insert(salt, tokens, *blocks, cache_.ReserveSnapshot().value());
    cache_.ReleaseBlocks(*blocks);
    return id;
  }
  int64_t Longest(const Tokens& tokens, const std::string& salt = "") const {
    return cache_.Longest(salt, tokens, 1000);
  }

  PrefixCache cache_;
};

class SmallPrefixCacheTest : public PrefixCacheTest {
 protected:
  SmallPrefixCacheTest() : PrefixCacheTest(4, 8) {}
};

// --- What live sequences hold ----------------------------------------------

TEST_F(PrefixCacheTest, GivesTheLowestFreeBlocksAscending) {
  const auto first = cache_.AllocateBlocks(3);
  cache_.ReleaseBlocks(Blocks{1});

  EXPECT_THAT(first, Optional(ElementsAre(0, 1, 2)));
  EXPECT_THAT(cache_.AllocateBlocks(2), Optional(ElementsAre(1, 3)));
}

TEST_F(PrefixCacheTest, GivesNoBlocksAndGivesUpNothingWhenTooFewCanBeHad) {
  Keep(Ids(4));
  const auto live = cache_.AllocateBlocks(3);

  EXPECT_EQ(cache_.AllocateBlocks(8), std::nullopt);
  EXPECT_EQ(Longest(Ids(5)), 4);
}

TEST_F(PrefixCacheTest, GivesAnEmptyListForNoBlocks) {
  EXPECT_THAT(cache_.AllocateBlocks(0), Optional(IsEmpty()));
}

TEST_F(PrefixCacheTest, GivesNoSlotWhenAllAreLive) {
  for (int i = 0; i < 4; ++i) ASSERT_THAT(cache_.AllocateSlot(), Optional(i));

  EXPECT_EQ(cache_.AllocateSlot(), std::nullopt);
}

TEST_F(PrefixCacheTest, CountsEachBlockAndSlotOnce) {
  Keep(Ids(6));
  Keep(Ids(7));
  const auto prefix = cache_.Take("", Ids(7), 7);
  const auto again = cache_.Take("", Ids(7), 7);
  cache_.AllocateSlot();

  const PrefixCache::Counts counts = cache_.counts();
  EXPECT_EQ(counts.blocks_live, 1);      // The whole one, twice.
  EXPECT_EQ(counts.blocks_reusable, 2);  // Two tails.
  EXPECT_EQ(counts.blocks_free, 7);
  EXPECT_EQ(counts.slots_live, 1);
  EXPECT_EQ(counts.slots_snapshot, 2);
  EXPECT_EQ(counts.slots_free, 1);
}

TEST_F(PrefixCacheTest, KeepsASharedBlockUntilItsLastHolderIsDone) {
  const auto id = Keep(Ids(4));
  const auto one = cache_.Take("", Ids(4), 4);
  const auto two = cache_.Take("", Ids(4), 4);
  cache_.Drop(id);

  cache_.ReleaseBlocks(one.blocks);
  EXPECT_EQ(cache_.counts().blocks_live, 1);
  cache_.ReleaseBlocks(two.blocks);
  EXPECT_EQ(cache_.counts().blocks_free, 10);
}

// --- What is found ---------------------------------------------------------

TEST_F(PrefixCacheTest, FindsNothingAtFirst) {
  EXPECT_EQ(cache_.Take("", Ids(9), 9).tokens, 0);
}

TEST_F(PrefixCacheTest, FindsTheLongestKeptPrefix) {
  Keep(Ids(4));
  Keep(Ids(6));
  Keep(Ids(12));

  EXPECT_EQ(Longest(Ids(13)), 12);
  EXPECT_EQ(Longest(Ids(11)), 6);
  EXPECT_EQ(Longest(Ids(5)), 4);
  EXPECT_EQ(Longest(Ids(3)), 0);
}

TEST_F(PrefixCacheTest, FindsNoMoreThanWasAskedFor) {
  Keep(Ids(4));
  Keep(Ids(6));

  EXPECT_EQ(cache_.Longest("", Ids(9), 6), 6);
  EXPECT_EQ(cache_.Longest("", Ids(9), 5), 4);
  EXPECT_EQ(cache_.Longest("", Ids(9), 0), 0);
}

TEST_F(PrefixCacheTest, FindsTheLongestTailThatFits) {
  Keep(Ids(5));
  Keep(Ids(7));
  Keep(Ids(7, /*last=*/50));

  EXPECT_EQ(Longest(Ids(6)), 5);
  EXPECT_EQ(Longest(Ids(8)), 7);
  EXPECT_EQ(Longest(Ids(7, /*last=*/40)), 5);
}

TEST_F(PrefixCacheTest, FindsNoKeysAndValuesWithoutASnapshot) {
  const auto id = Keep(Ids(4));
  Keep(Ids(8));
  cache_.Drop(id);

  EXPECT_EQ(Longest(Ids(7)), 0);
  EXPECT_EQ(Longest(Ids(8)), 8);
}

TEST_F(PrefixCacheTest, KeepsSaltsApart) {
  Keep(Ids(4), "a");

  EXPECT_EQ(Longest(Ids(4), "a"), 4);
  EXPECT_EQ(Longest(Ids(4), "b"), 0);
  EXPECT_EQ(Longest(Ids(4)), 0);
}

TEST_F(PrefixCacheTest, GivesTheBlocksTheTailAndTheSnapshot) {
  const auto blocks = cache_.AllocateBlocks(3);
  cache_.AllocateSlot();
  cache_.Insert("", Ids(10), *blocks, cache_.ReserveSnapshot().value());

  const auto prefix = cache_.Take("", Ids(12), 11);

  EXPECT_EQ(prefix.tokens, 10);
  EXPECT_THAT(prefix.blocks, ElementsAre(0, 1));
  EXPECT_EQ(prefix.tail_block, 2);
  EXPECT_EQ(prefix.slot, 1);
}

TEST_F(PrefixCacheTest, GivesNoTailWherePrefixesEndWithABlock) {
  Keep(Ids(8));

  const auto prefix = cache_.Take("", Ids(9), 8);

  EXPECT_THAT(prefix.blocks, ElementsAre(0, 1));
  EXPECT_EQ(prefix.tail_block, -1);
}

TEST_F(PrefixCacheTest, SharesTheBlocksOfWhoeverWasFirst) {
  const auto first = cache_.AllocateBlocks(1);
  const auto second = cache_.AllocateBlocks(2);
  cache_.Insert("", Ids(4), *first, *cache_.ReserveSnapshot());

  cache_.Insert("", Ids(8), *second, *cache_.ReserveSnapshot());

  EXPECT_THAT(cache_.Take("", Ids(8), 8).blocks,
              ElementsAre((*first)[0], (*second)[1]));
}

TEST_F(PrefixCacheTest, FreesTheSlotOfASecondSnapshotOfOnePrefix) {
  const auto id = Keep(Ids(6));

  EXPECT_EQ(Keep(Ids(6)), id);
  EXPECT_EQ(cache_.counts().slots_snapshot, 1);
  EXPECT_EQ(cache_.counts().slots_free, 3);
  EXPECT_EQ(cache_.counts().blocks_reusable, 2);
}

// --- What is given up ------------------------------------------------------

TEST_F(PrefixCacheTest, GivesUpTheLeastRecentlyUsedSnapshotForASlot) {
  Keep(Ids(4), "a");
  Keep(Ids(4), "b");
  Keep(Ids(4), "c");
  cache_.AllocateSlot();
  cache_.ReleaseBlocks(cache_.Take("a", Ids(4), 4).blocks);

  cache_.AllocateSlot();

  EXPECT_EQ(Longest(Ids(4), "a"), 4);
  EXPECT_EQ(Longest(Ids(4), "b"), 0);
  EXPECT_EQ(Longest(Ids(4), "c"), 4);
}

TEST_F(PrefixCacheTest, AnInnerSnapshotGoesWithoutTheBlocksThatOthersNeed) {
  Keep(Ids(4));
  Keep(Ids(8));
  cache_.AllocateSlot();
  cache_.AllocateSlot();

  cache_.AllocateSlot();

  EXPECT_EQ(Longest(Ids(4)), 0);
  EXPECT_EQ(Longest(Ids(8)), 8);
  EXPECT_EQ(cache_.counts().blocks_reusable, 2);
}

TEST_F(PrefixCacheTest, ALeafGoesWithAllThatIsOfNoUseWithoutIt) {
  Keep(Ids(4));
  const auto id = Keep(Ids(14));

  cache_.Drop(id);

  EXPECT_EQ(cache_.counts().blocks_reusable, 1);
  EXPECT_EQ(Longest(Ids(14)), 4);
}

TEST_F(SmallPrefixCacheTest, GivesUpTheLeastRecentlyUsedLeafForABlock) {
  Keep(Ids(4));  // Used first, but the next one stands on it.
  Keep(Ids(8));
  Keep(Ids(4), "b");
  cache_.AllocateBlocks(1);
  cache_.ReleaseBlocks(cache_.Take("", Ids(8), 8).blocks);

  cache_.AllocateBlocks(1);
  EXPECT_EQ(Longest(Ids(4), "b"), 0);
  cache_.AllocateBlocks(1);
  EXPECT_EQ(Longest(Ids(8)), 4);
  cache_.AllocateBlocks(1);
  EXPECT_EQ(Longest(Ids(4)), 0);
}

TEST_F(SmallPrefixCacheTest, GivesUpALeafWhoseBlockIsHeldLast) {
  const auto held = cache_.AllocateBlocks(1);
  cache_.Insert("", Ids(4), *held, *cache_.ReserveSnapshot());
  Keep(Ids(4), "b");
  cache_.AllocateBlocks(2);

  cache_.AllocateBlocks(1);

  EXPECT_EQ(Longest(Ids(4)), 4);
  EXPECT_EQ(Longest(Ids(4), "b"), 0);
}

// Two sequences computed the same block; the second one is live and went on.
TEST_F(SmallPrefixCacheTest, AllThatIsAvailableCanBeHadBelowALiveBlockToo) {
  Keep(Ids(4));
  const auto live = cache_.AllocateBlocks(2);
  cache_.Insert("", Ids(8), *live, *cache_.ReserveSnapshot());
  ASSERT_EQ(cache_.available_blocks(), 2);

  EXPECT_THAT(cache_.AllocateBlocks(2), Optional(ElementsAre(0, 3)));
  EXPECT_EQ(Longest(Ids(8)), 0);
}

TEST_F(SmallPrefixCacheTest, ATailThatWasGivenUpMayBeTheBlockItIsCopiedTo) {
  Keep(Ids(14));

  const auto prefix = cache_.Take("", Ids(15), 14);
  const auto blocks = cache_.AllocateBlocks(1);

  EXPECT_EQ(prefix.tail_block, 3);
  EXPECT_THAT(blocks, Optional(ElementsAre(3)));
}

TEST_F(PrefixCacheTest, DroppingWhatIsGoneDoesNothing) {
  const auto id = Keep(Ids(4));
  cache_.Drop(id);
  Keep(Ids(4));

  cache_.Drop(id);

  EXPECT_EQ(Longest(Ids(4)), 4);
}

TEST_F(PrefixCacheTest, FlushForgetsAllButWhatIsLive) {
  Keep(Ids(10));
  Keep(Ids(6), "a");
  const auto prefix = cache_.Take("", Ids(10), 10);

  cache_.Flush();

  EXPECT_EQ(Longest(Ids(10)), 0);
  EXPECT_EQ(cache_.counts().blocks_live, 2);
  EXPECT_EQ(cache_.counts().blocks_free, 8);
  EXPECT_EQ(cache_.counts().slots_free, 4);
}

// --- Bugs of the caller ----------------------------------------------------

TEST_F(PrefixCacheTest, RefusesABlockReleasedTwice) {
  const auto blocks = cache_.AllocateBlocks(1);
  cache_.ReleaseBlocks(*blocks);

  EXPECT_DEATH(cache_.ReleaseBlocks(*blocks), "is_used");
}

TEST_F(PrefixCacheTest, RefusesToReleaseABlockThatTheIndexAloneHas) {
  Keep(Ids(4));

  EXPECT_DEATH(cache_.ReleaseBlocks(Blocks{0}), "holds > 0");
}

TEST_F(PrefixCacheTest, RefusesToReleaseTheSlotOfASnapshot) {
  Keep(Ids(4));

  EXPECT_DEATH(cache_.ReleaseSlot(0), "is_snapshot");
}

TEST_F(PrefixCacheTest, RefusesToKeepBlocksThatTheCallerDoesNotHold) {
  const auto slot = cache_.ReserveSnapshot();

  EXPECT_DEATH(cache_.Insert("", Ids(4), Blocks{0}, *slot), "holds > 0");
}

TEST_F(PrefixCacheTest, RefusesMoreOrFewerBlocksThanTokensNeed) {
  const auto blocks = cache_.AllocateBlocks(2);
  const auto slot = cache_.ReserveSnapshot();

  EXPECT_DEATH(cache_.Insert("", Ids(4), *blocks, *slot), "CeilDivide");
}

}  // namespace
}  // namespace phalanx
