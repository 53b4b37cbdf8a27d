#include "worker/cpu_share.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(ShareCpus, RanksGetDisjointShares) {
  const std::vector<int> allowed = {0, 1, 4, 5};
  EXPECT_THAT(ShareCpus(allowed, 0, 2, 0).cpus, ElementsAre(0, 1));
  EXPECT_THAT(ShareCpus(allowed, 1, 2, 0).cpus, ElementsAre(4, 5));
}

TEST(ShareCpus, WhatDoesNotDivideIsLeftOver) {
  const CpuShare share = ShareCpus({0, 1, 2, 3, 4}, 1, 2, 0);
  EXPECT_EQ(share.threads, 2);
  EXPECT_TRUE(share.spin);
  EXPECT_THAT(share.cpus, ElementsAre(2, 3));
}

TEST(ShareCpus, MoreRanksThanCpusNeitherSpinNorPin) {
  const CpuShare share = ShareCpus({0, 1}, 3, 4, 0);
  EXPECT_EQ(share.threads, 1);
  EXPECT_FALSE(share.spin);
  EXPECT_THAT(share.cpus, IsEmpty());
}

TEST(ShareCpus, TheFlagDecidesTheNumberOfThreads) {
  EXPECT_THAT(ShareCpus({0, 1, 2, 3}, 1, 2, 1).cpus, ElementsAre(1));
  const CpuShare share = ShareCpus({0, 1}, 0, 1, 8);
  EXPECT_EQ(share.threads, 8);
  EXPECT_FALSE(share.spin);
}

TEST(AllowedCpus, HasAtLeastOne) { EXPECT_FALSE(AllowedCpus().empty()); }

}  // namespace
}  // namespace phalanx
