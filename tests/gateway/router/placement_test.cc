#include "gateway/router/placement.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <string>
#include <vector>

namespace phalanx {
namespace {

std::vector<int32_t> Ids(int64_t count, int32_t first = 0) {
  std::vector<int32_t> ids(count);
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

PrefixKey LongPrefix(int32_t first = 0) {
  return PrefixKeyOf("", Ids(1024, first));
}
PrefixKey NoPrefix(const std::string& salt = "") {
  return PrefixKeyOf(salt, {});
}

// Two groups with places for 64; the one that this key prefers comes first.
struct Pair {
  explicit Pair(const PrefixKey& key) : prefix(key) {
    if (ChooseGroup(groups, prefix) == 1) std::swap(groups[0], groups[1]);
  }
  int64_t Choose(int64_t preferred, int64_t other) {
    groups[0].streams = preferred;
    groups[1].streams = other;
    return ChooseGroup(groups, prefix);
  }

  PrefixKey prefix;
  std::vector<Candidate> groups = {{.name = "a", .max_running = 64},
                                   {.name = "b", .max_running = 64}};
};

TEST(PlacementTest, ALongPrefixIsKnownByItsFirst1024Tokens) {
  std::vector<int32_t> longer = Ids(5000);
  const PrefixKey key = PrefixKeyOf("s", Ids(1024));

  EXPECT_TRUE(key.cached);
  EXPECT_EQ(PrefixKeyOf("s", longer).hash, key.hash);
  longer[1023] = 0;
  EXPECT_NE(PrefixKeyOf("s", longer).hash, key.hash);
}

TEST(PlacementTest, AMiddlingPrefixIsKnownByItsFirst256Tokens) {
  std::vector<int32_t> longer = Ids(1023);
  const PrefixKey key = PrefixKeyOf("s", Ids(256));

  EXPECT_TRUE(key.cached);
  EXPECT_EQ(PrefixKeyOf("s", longer).hash, key.hash);
  longer[255] = 0;
  EXPECT_NE(PrefixKeyOf("s", longer).hash, key.hash);
}

TEST(PlacementTest, AShortPrefixIsKnownByItsSaltAlone) {
  const PrefixKey key = PrefixKeyOf("s", Ids(255));

  EXPECT_FALSE(key.cached);
  EXPECT_EQ(key.hash, NoPrefix("s").hash);
  EXPECT_NE(key.hash, NoPrefix("t").hash);
}

TEST(PlacementTest, UnlikeSaltsAreUnlikePrefixes) {
  EXPECT_NE(PrefixKeyOf("s", Ids(256)).hash, PrefixKeyOf("t", Ids(256)).hash);
}

TEST(PlacementTest, APrefixKeepsItsGroupWithinAnEighthOfThePlaces) {
  Pair pair(LongPrefix());

  EXPECT_EQ(pair.Choose(8, 0), 0);
  EXPECT_EQ(pair.Choose(9, 0), 1);
  EXPECT_EQ(pair.Choose(28, 20), 0);
  EXPECT_EQ(pair.Choose(29, 20), 1);
}

TEST(PlacementTest, APrefixKeepsASmallGroupWithinTwoStreams) {
  Pair pair(LongPrefix());
  for (Candidate& group : pair.groups) group.max_running = 4;

  EXPECT_EQ(pair.Choose(2, 0), 0);
  EXPECT_EQ(pair.Choose(3, 0), 1);
}

TEST(PlacementTest, AShortPrefixGoesToTheLeastLoaded) {
  Pair pair(NoPrefix());

  EXPECT_EQ(pair.Choose(5, 5), 0);
  EXPECT_EQ(pair.Choose(6, 5), 1);
}

TEST(PlacementTest, LoadIsRelativeToThePlaces) {
  Pair pair(NoPrefix());
  pair.groups[0].max_running = 256;

  EXPECT_EQ(pair.Choose(20, 5), 0);
  EXPECT_EQ(pair.Choose(21, 5), 1);
}

TEST(PlacementTest, WhoMakesWayForAPrefixIsTheSameEveryTime) {
  std::vector<Candidate> groups = {{.name = "a", .max_running = 64},
                                   {.name = "b", .max_running = 64},
                                   {.name = "c", .max_running = 64}};
  const int64_t first = ChooseGroup(groups, LongPrefix());
  groups[first].streams = 60;
  const int64_t second = ChooseGroup(groups, LongPrefix());
  groups[3 - first - second].streams = 3;

  EXPECT_EQ(ChooseGroup(groups, LongPrefix()), second);
}

TEST(PlacementTest, AGroupThatGoesMovesNoPrefixOfTheOthers) {
  const std::vector<Candidate> three = {
      {.name = "a"}, {.name = "b"}, {.name = "c"}};
  const std::vector<Candidate> two = {{.name = "a"}, {.name = "b"}};
  for (int32_t first = 0; first < 200; ++first) {
    const int64_t was = ChooseGroup(three, LongPrefix(first));
    if (was == 2) continue;
    EXPECT_EQ(ChooseGroup(two, LongPrefix(first)), was) << first;
  }
}

// 400 prefixes, 100 expected in each of four groups with a standard deviation
// of sqrt(400 * 1/4 * 3/4) = 8.7; five of them are 43.
TEST(PlacementTest, PrefixesSpreadEvenly) {
  const std::vector<Candidate> four = {
      {.name = "0"}, {.name = "1"}, {.name = "2"}, {.name = "3"}};
  std::map<int64_t, int> counts;
  for (int32_t first = 0; first < 400; ++first)
    ++counts[ChooseGroup(four, LongPrefix(first))];

  for (int64_t g = 0; g < 4; ++g) EXPECT_NEAR(counts[g], 100, 43) << g;
}

}  // namespace
}  // namespace phalanx
