#include "worker/cache/block_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::Optional;

TEST(BlockPool, StartsWithEveryBlockFree) {
  const BlockPool pool(3);

  EXPECT_EQ(pool.capacity(), 3);
  EXPECT_EQ(pool.free_count(), 3);
  EXPECT_EQ(pool.used_count(), 0);
}

TEST(BlockPool, GivesTheLowestFreeBlocksInAscendingOrder) {
  BlockPool pool(6);
  ASSERT_TRUE(pool.Allocate(5).has_value());
  pool.Free(std::vector<int32_t>{3, 1, 4});

  EXPECT_THAT(pool.Allocate(3), Optional(ElementsAre(1, 3, 4)));
}

TEST(BlockPool, GivesNothingAtAllWhenTooFewAreFree) {
  BlockPool pool(3);
  ASSERT_TRUE(pool.Allocate(1).has_value());

  EXPECT_EQ(pool.Allocate(3), std::nullopt);
  EXPECT_EQ(pool.free_count(), 2);
}

TEST(BlockPool, GivesAnEmptyListForNone) {
  BlockPool pool(0);

  EXPECT_THAT(pool.Allocate(0), Optional(ElementsAre()));
}

TEST(BlockPool, KnowsWhichBlocksAreUsed) {
  BlockPool pool(2);
  ASSERT_TRUE(pool.Allocate(1).has_value());

  EXPECT_TRUE(pool.is_used(0));
  EXPECT_FALSE(pool.is_used(1));
}

TEST(BlockPoolDeathTest, RefusesABlockFreedTwice) {
  BlockPool pool(2);
  ASSERT_TRUE(pool.Allocate(1).has_value());
  const std::vector<int32_t> twice = {0, 0};

  EXPECT_DEATH(pool.Free(twice), "is_used");
}

TEST(BlockPoolDeathTest, RefusesABlockThatItDoesNotHave) {
  BlockPool pool(2);
  const std::vector<int32_t> beyond = {2};

  EXPECT_DEATH(pool.Free(beyond), "block < capacity");
}

}  // namespace
}  // namespace phalanx
