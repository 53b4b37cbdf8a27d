#include "worker/cache/slot_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace phalanx {
namespace {

using testing::Optional;

TEST(SlotPool, GivesTheLowestFreeSlot) {
  SlotPool pool(3);
  ASSERT_THAT(pool.Allocate(), Optional(0));
  ASSERT_THAT(pool.Allocate(), Optional(1));
  ASSERT_THAT(pool.Allocate(), Optional(2));
  pool.Free(2);
  pool.Free(1);

  EXPECT_THAT(pool.Allocate(), Optional(1));
}

TEST(SlotPool, GivesNothingWhenNoneIsFree) {
  SlotPool pool(1);
  ASSERT_THAT(pool.Allocate(), Optional(0));

  EXPECT_EQ(pool.Allocate(), std::nullopt);
}

TEST(SlotPool, CountsUsedAndFreeSlots) {
  SlotPool pool(3);
  ASSERT_THAT(pool.Allocate(), Optional(0));

  EXPECT_EQ(pool.capacity(), 3);
  EXPECT_EQ(pool.used_count(), 1);
  EXPECT_EQ(pool.free_count(), 2);
  EXPECT_TRUE(pool.is_used(0));
  EXPECT_FALSE(pool.is_used(1));
}

TEST(SlotPoolDeathTest, RefusesASlotFreedTwice) {
  SlotPool pool(2);
  ASSERT_THAT(pool.Allocate(), Optional(0));
  pool.Free(0);

  EXPECT_DEATH(pool.Free(0), "is_used");
}

}  // namespace
}  // namespace phalanx
