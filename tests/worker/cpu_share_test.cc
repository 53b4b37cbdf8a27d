#include "worker/cpu_share.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// A made-up /sys/devices/system: no machine at hand has two nodes.
class Tree {
 public:
  Tree() {
    std::string path = testing::TempDir() + "/cpus.XXXXXX";
    root_ = mkdtemp(path.data());
  }
  ~Tree() { std::filesystem::remove_all(root_); }

  void SetNode(int node, const std::string& cpus) const {
    Write("node/node" + std::to_string(node) + "/cpulist", cpus);
  }
  void SetSiblings(int cpu, const std::string& cpus) const {
    Write("cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list",
          cpus);
  }
  std::vector<Cpu> Describe(const std::vector<int>& ids) const {
    return DescribeCpus(ids, root_);
  }

 private:
  void Write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = std::filesystem::path(root_) / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
  }

  std::string root_;
};

std::vector<int> Range(int first, int last) {
  std::vector<int> ids;
  for (int id = first; id <= last; ++id) ids.push_back(id);
  return ids;
}

// Cores of one thread each, by node.
std::vector<Cpu> Cores(const std::vector<std::vector<int>>& nodes) {
  std::vector<Cpu> cpus;
  for (size_t node = 0; node < nodes.size(); ++node)
    for (const int id : nodes[node])
      cpus.push_back({.id = id, .node = static_cast<int>(node), .core = id});
  return cpus;
}

std::vector<std::vector<int>> AllShares(const std::vector<Cpu>& cpus,
                                        int tp_size, int threads = 0) {
  std::vector<std::vector<int>> shares;
  for (int rank = 0; rank < tp_size; ++rank)
    shares.push_back(ShareCpus(cpus, rank, tp_size, threads).cpus);
  return shares;
}

TEST(DescribeCpus, ReadsNodesAndCores) {
  const Tree tree;
  tree.SetNode(0, "0-1,4-5");
  tree.SetNode(1, "2-3,6-7");
  for (int cpu = 0; cpu < 4; ++cpu) {
    const std::string both =
        std::to_string(cpu) + "," + std::to_string(cpu + 4);
    tree.SetSiblings(cpu, both);
    tree.SetSiblings(cpu + 4, both);
  }

  EXPECT_THAT(tree.Describe({0, 3, 5}),
              ElementsAre(Cpu{.id = 0, .node = 0, .core = 0},
                          Cpu{.id = 3, .node = 1, .core = 3},
                          Cpu{.id = 5, .node = 0, .core = 1}));
}

TEST(DescribeCpus, NodesMayHaveHolesAndMemoryAlone) {
  const Tree tree;
  tree.SetNode(0, "0-1");
  tree.SetNode(2, "");
  tree.SetNode(8, "2-3");

  EXPECT_THAT(tree.Describe({1, 2}),
              ElementsAre(Cpu{.id = 1, .node = 0, .core = 1},
                          Cpu{.id = 2, .node = 8, .core = 2}));
}

TEST(DescribeCpus, WithoutATreeAllIsOneNode) {
  EXPECT_THAT(DescribeCpus({3, 5}, "/no/such/folder"),
              ElementsAre(Cpu{.id = 3, .node = 0, .core = 3},
                          Cpu{.id = 5, .node = 0, .core = 5}));
}

TEST(DescribeCpus, WhatMakesNoSenseIsLeftOut) {
  const Tree tree;
  tree.SetNode(1, "x,1-,-3,0-99999999,2");

  EXPECT_THAT(tree.Describe({1, 2}),
              ElementsAre(Cpu{.id = 1, .node = 0, .core = 1},
                          Cpu{.id = 2, .node = 1, .core = 2}));
}

TEST(ShareCpus, RanksGetDisjointShares) {
  EXPECT_THAT(AllShares(Cores({{0, 1, 4, 5}}), 2),
              ElementsAre(ElementsAre(0, 1), ElementsAre(4, 5)));
}

TEST(ShareCpus, WhatDoesNotDivideIsLeftOver) {
  const CpuShare share = ShareCpus(Cores({{0, 1, 2, 3, 4}}), 1, 2, 0);
  EXPECT_EQ(share.threads, 2);
  EXPECT_TRUE(share.spin);
  EXPECT_THAT(share.cpus, ElementsAre(2, 3));
}

TEST(ShareCpus, MoreRanksThanCpusNeitherSpinNorPin) {
  const CpuShare share = ShareCpus(Cores({{0, 1}}), 3, 4, 0);
  EXPECT_EQ(share.threads, 1);
  EXPECT_FALSE(share.spin);
  EXPECT_THAT(share.cpus, IsEmpty());
}

TEST(ShareCpus, TheFlagDecidesTheNumberOfThreads) {
  EXPECT_THAT(ShareCpus(Cores({{0, 1, 2, 3}}), 1, 2, 1).cpus, ElementsAre(1));
  const CpuShare share = ShareCpus(Cores({{0, 1}}), 0, 1, 8);
  EXPECT_EQ(share.threads, 8);
  EXPECT_FALSE(share.spin);
}

TEST(ShareCpus, AsManyRanksAsNodesGetWholeNodes) {
  // Numbered across the nodes, as many machines do.
  EXPECT_THAT(AllShares(Cores({{0, 2, 4, 6}, {1, 3, 5, 7}}), 2),
              ElementsAre(ElementsAre(0, 2, 4, 6), ElementsAre(1, 3, 5, 7)));
}

TEST(ShareCpus, NeighboursShareANode) {
  EXPECT_THAT(AllShares(Cores({{0, 2, 4, 6}, {1, 3, 5, 7}}), 4),
              ElementsAre(ElementsAre(0, 2), ElementsAre(4, 6),
                          ElementsAre(1, 3), ElementsAre(5, 7)));
}

TEST(ShareCpus, FewThreadsStillUseEveryNodesMemory) {
  EXPECT_THAT(AllShares(Cores({{0, 1, 2, 3}, {4, 5, 6, 7}}), 2, 2),
              ElementsAre(ElementsAre(0, 1), ElementsAre(4, 5)));
}

TEST(ShareCpus, OneRankHasAllNodes) {
  EXPECT_THAT(AllShares(Cores({{0, 2}, {1, 3}}), 1),
              ElementsAre(ElementsAre(0, 2, 1, 3)));
}

TEST(ShareCpus, ACpusetThatCutsANodeCostsThreadsRatherThanStraddling) {
  // 8 and 6 cores: 7 a rank would leave one thread on the other's node.
  const auto shares = AllShares(Cores({Range(0, 7), Range(8, 13)}), 2);
  EXPECT_THAT(shares, ElementsAre(Range(0, 5), Range(8, 13)));
}

TEST(ShareCpus, AllRanksFindTheSameNumberOfThreads) {
  const std::vector<Cpu> cpus = Cores({Range(0, 7), Range(8, 13)});
  EXPECT_EQ(ShareCpus(cpus, 0, 2, 0).threads, 6);
  EXPECT_EQ(ShareCpus(cpus, 1, 2, 0).threads, 6);
}

TEST(ShareCpus, ANodeThatIsCutTooShortIsLeftOut) {
  // Five threads a rank across the nodes, four within the first.
  EXPECT_THAT(AllShares(Cores({Range(0, 7), Range(8, 9)}), 2),
              ElementsAre(Range(0, 3), Range(4, 7)));
}

TEST(ShareCpus, StraddlesWhereNodesHoldTooFewThreads) {
  // Three a rank across the nodes, two within them.
  EXPECT_THAT(AllShares(Cores({Range(0, 3), Range(4, 7), Range(8, 11)}), 4),
              ElementsAre(Range(0, 2), Range(3, 5), Range(6, 8), Range(9, 11)));
}

TEST(ShareCpus, AThreadCountThatWasGivenIsKept) {
  EXPECT_THAT(AllShares(Cores({Range(0, 7), Range(8, 13)}), 2, 7),
              ElementsAre(Range(0, 6), testing::UnorderedElementsAre(
                                           7, 8, 9, 10, 11, 12, 13)));
}

// Two nodes of two cores of two threads: 0 and 4, 1 and 5 | 2 and 6, 3 and 7.
std::vector<Cpu> Siblings() {
  std::vector<Cpu> cpus;
  for (int id = 0; id < 8; ++id)
    cpus.push_back({.id = id, .node = (id % 4) / 2, .core = id % 4});
  return cpus;
}

TEST(ShareCpus, SiblingsOfAThreadStayFree) {
  EXPECT_THAT(AllShares(Siblings(), 2),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
}

TEST(ShareCpus, MoreThreadsThanCoresUseSiblingsSideBySide) {
  EXPECT_THAT(AllShares(Siblings(), 2, 4),
              ElementsAre(ElementsAre(0, 4, 1, 5), ElementsAre(2, 6, 3, 7)));
  EXPECT_THAT(AllShares(Siblings(), 4, 2),
              ElementsAre(ElementsAre(0, 4), ElementsAre(1, 5),
                          ElementsAre(2, 6), ElementsAre(3, 7)));
}

TEST(ShareCpus, ACoreOfWhichOneThreadIsAllowedIsACore) {
  std::vector<Cpu> cpus = Siblings();
  cpus.erase(cpus.begin());  // CPU 0; its sibling 4 is left.
  EXPECT_THAT(AllShares(cpus, 2),
              ElementsAre(ElementsAre(4, 1), ElementsAre(2, 3)));
}

TEST(ShareCpus, NeverGivesACpuTwice) {
  for (const int small : {1, 2, 3, 5, 8}) {
    const auto cpus =
        Cores({Range(0, 7), Range(8, 7 + small), Range(20, 19 + small)});
    for (const int tp_size : {1, 2, 4, 8}) {
      const auto shares = AllShares(cpus, tp_size);
      std::set<int> given;
      for (const auto& share : shares) {
        EXPECT_THAT(share, SizeIs(shares.front().size()));
        for (const int cpu : share)
          EXPECT_TRUE(given.insert(cpu).second) << small << " " << tp_size;
      }
    }
  }
}

TEST(AllowedCpus, HasAtLeastOne) { EXPECT_FALSE(AllowedCpus().empty()); }

std::vector<int> OwnMask() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof(set), &set);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

TEST(StayOnCpus, ThreadsThatStartMeanwhileStay) {
  const std::vector<int> before = OwnMask();
  std::vector<int> inside, of_thread;
  {
    const StayOnCpus stay({before.back()});
    inside = OwnMask();
    std::thread([&] { of_thread = OwnMask(); }).join();
  }

  EXPECT_THAT(inside, ElementsAre(before.back()));
  EXPECT_EQ(of_thread, inside);
  EXPECT_EQ(OwnMask(), before);
}

TEST(StayOnCpus, NoCpusAreAnywhere) {
  const std::vector<int> before = OwnMask();
  const StayOnCpus stay({});
  EXPECT_EQ(OwnMask(), before);
}

TEST(StayOnCpus, LeavesAThreadThatWasPinnedMeanwhile) {
  const std::vector<int> before = OwnMask();
  if (before.size() < 2) GTEST_SKIP() << "needs two CPUs";
  std::vector<int> after;
  std::thread([&] {
    {
      const StayOnCpus stay(before);
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(before.front(), &one);
      sched_setaffinity(0, sizeof(one), &one);
    }
    after = OwnMask();
  }).join();

  EXPECT_THAT(after, ElementsAre(before.front()));
}

}  // namespace
}  // namespace phalanx
