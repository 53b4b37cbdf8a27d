#include "worker/cache/radix_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace phalanx {
namespace {

using testing::IsEmpty;

using Ids = std::vector<int32_t>;
using Node = RadixIndex::Node;

constexpr int64_t kBlockTokens = 2;

uint64_t AllAlike(uint64_t, RadixIndex::Tokens) { return 7; }

class RadixIndexTest : public testing::TestWithParam<RadixIndex::Hash> {
 protected:
  // With a snapshot, in blocks 0, 1, ..
  Node* Add(const Ids& ids, const std::string& salt = "") {
    std::vector<int32_t> blocks(ids.size());
    for (size_t i = 0; i < blocks.size(); ++i)
      blocks[i] = static_cast<int32_t>(i);
    added_.clear();
    Node* node = index_.Extend(salt, ids, blocks, added_);
    node->slot = 1;
    return node;
  }

  RadixIndex index_{kBlockTokens, GetParam()};
  std::vector<Node*> added_;
};

TEST_P(RadixIndexTest, FindsTheDeepestNodeWithASnapshot) {
  Node* whole = Add({1, 2});
  Node* deep = Add({1, 2, 3, 4, 5, 6});

  EXPECT_EQ(index_.Longest("", Ids{1, 2, 3, 4, 5, 6, 7}), deep);
  EXPECT_EQ(index_.Longest("", Ids{1, 2, 3, 4, 5}), whole);
  EXPECT_EQ(index_.Longest("", Ids{1}), nullptr);
}

TEST_P(RadixIndexTest, TellsApartBlocksInOtherPlaces) {
  // The same block under two parents, and under itself.
  Node* a = Add({1, 2, 9, 9});
  Node* b = Add({3, 4, 9, 9});
  Node* c = Add({9, 9, 9, 9});

  EXPECT_EQ(index_.Longest("", Ids{1, 2, 9, 9}), a);
  EXPECT_EQ(index_.Longest("", Ids{3, 4, 9, 9}), b);
  EXPECT_EQ(index_.Longest("", Ids{9, 9, 9, 9, 9, 9}), c);
  EXPECT_EQ(index_.Longest("", Ids{5, 6, 9, 9}), nullptr);
}

TEST_P(RadixIndexTest, TellsApartSalts) {
  Node* a = Add({1, 2}, "a");
  Node* b = Add({1, 2}, "b");

  EXPECT_EQ(index_.Longest("a", Ids{1, 2}), a);
  EXPECT_EQ(index_.Longest("b", Ids{1, 2}), b);
  EXPECT_EQ(index_.Longest("", Ids{1, 2}), nullptr);
}

TEST_P(RadixIndexTest, AddsOnlyWhatIsMissingTheHighestFirst) {
  Add({1, 2});

  Node* tail = Add({1, 2, 3, 4, 5});

  ASSERT_EQ(added_.size(), 2u);
  EXPECT_EQ(added_[0]->end, 4);
  EXPECT_EQ(added_[0]->block, 1);
  EXPECT_EQ(added_[1], tail);
  EXPECT_EQ(tail->block, 2);
  EXPECT_EQ(Add({1, 2, 3, 4, 5}), tail);
  EXPECT_THAT(added_, IsEmpty());
}

TEST_P(RadixIndexTest, FindsNoMoreWhatWasRemoved) {
  Node* whole = Add({1, 2});
  Node* tail = Add({1, 2, 3});
  tail->slot = -1;

  index_.Remove(tail);

  EXPECT_EQ(index_.Longest("", Ids{1, 2, 3}), whole);
  EXPECT_EQ(whole->children, 0);
}

TEST_P(RadixIndexTest, ARootCanBeRemovedAndComesAgain) {
  Node* node = Add({1, 2}, "a");
  Node* root = node->parent;
  node->slot = -1;
  index_.Remove(node);

  index_.Remove(root);

  EXPECT_EQ(index_.Longest("a", Ids{1, 2}), nullptr);
  Node* again = Add({1, 2}, "a");
  EXPECT_EQ(index_.Longest("a", Ids{1, 2}), again);
}

TEST_P(RadixIndexTest, RefusesToRemoveWhatOthersStandOn) {
  Node* whole = Add({1, 2});
  Add({1, 2, 3});
  whole->slot = -1;

  EXPECT_DEATH(index_.Remove(whole), "children == 0");
}

// Equal hashes of unlike blocks must cost time alone.
INSTANTIATE_TEST_SUITE_P(Hashes, RadixIndexTest,
                         testing::Values(&RadixIndex::HashBlock, &AllAlike),
                         [](const auto& info) {
                           return info.index == 0 ? "Spread" : "AllAlike";
                         });

// A tail that is not a prefix may lie between one that is and the tokens.
TEST(RadixIndexTails, FindsTheLongestOfManyNeighbours) {
  RadixIndex index(16);
  std::vector<Node*> added;
  const std::vector<int32_t> block = {0};
  for (const Ids& tail : {Ids{5}, Ids{5, 5}, Ids{5, 5, 2}, Ids{5, 5, 5, 1},
                          Ids{5, 5, 5, 3}, Ids{5, 5, 4, 9}, Ids{4}, Ids{6}})
    index.Extend("", tail, block, added)->slot = 1;

  const auto end = [&](const Ids& ids) {
    const Node* node = index.Longest("", ids);
    return node == nullptr ? 0 : node->end;
  };

  EXPECT_EQ(end({5, 5, 5, 2}), 2);
  EXPECT_EQ(end({5, 5, 5, 3, 3}), 4);
  EXPECT_EQ(end({5, 4, 9}), 1);
  EXPECT_EQ(end({5, 5, 2}), 3);
  EXPECT_EQ(end({7, 7}), 0);
  EXPECT_EQ(end({3}), 0);
}

}  // namespace
}  // namespace phalanx
