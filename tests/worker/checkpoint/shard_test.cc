#include "worker/checkpoint/shard.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/status_matchers.h"
#include "tests/worker/checkpoint/checkpoint_files.h"
#include "worker/checkpoint/model_config.h"
#include "worker/checkpoint/tensor_rules.h"

namespace phalanx {
namespace {

using testing::ElementsAre;

constexpr char kMoe[] = GOLDEN_DIR "/models/moe";

// Compares every tensor of a model's golden file that `wanted` picks, for each
// TP size and rank, as stored; counts how many there were.
int CompareWithGolden(const std::string& model, bool (*wanted)(TensorRole)) {
  const nlohmann::json golden = ReadJson(GOLDEN_DIR "/tp/" + model + ".json");
  const std::string model_dir = GOLDEN_DIR "/models/" + model;
  const TensorSpecs tensors = ReadTensors(model_dir);
  const auto config = LoadModelConfig(model_dir);
  EXPECT_OK(config);
  int compared = 0;
  for (int tp_size : {1, 2, 4, 8}) {
    for (int rank = 0; rank < tp_size; ++rank) {
      const auto shape = MakeLocalShape(*config, rank, tp_size);
      EXPECT_OK(shape);
      const nlohmann::json& expected =
          golden[std::to_string(tp_size)][static_cast<size_t>(rank)];
      for (const auto& [name, entry] : expected.items()) {
        const auto id = ParseTensorName(name);
        EXPECT_TRUE(id.has_value()) << name;
        if (!id.has_value() || !wanted(id->role)) continue;
        const TensorSlice slice = *SliceOfName(name, *config, *shape);
        std::vector<std::vector<int64_t>> ranges;
        for (const Range& range : slice.ranges)
          ranges.push_back({range.begin, range.end});
        const std::string where = name + " of rank " + std::to_string(rank) +
                                  " of " + std::to_string(tp_size);
        EXPECT_EQ(entry.value("dim", -1), slice.dim) << where;
        EXPECT_EQ(entry.value("ranges", decltype(ranges)()), ranges) << where;
        EXPECT_EQ(entry["sha256"].get<std::string>(),
                  Sha256(SliceBytes(tensors.at(name), slice)))
            << where;
        ++compared;
      }
    }
  }
  return compared;
}

bool IsPartSplit(TensorRole role) {
  return role == TensorRole::kInProjQkv || role == TensorRole::kConv ||
         role == TensorRole::kExpertsGateUp;
}

bool IsKv(TensorRole role) {
  return role == TensorRole::kKProj || role == TensorRole::kVProj;
}

TEST(ShardTp, CutsEqualChunksInTheOrderOfRanks) {
  EXPECT_EQ(ShardTp(12, 0, 4), (Range{0, 3}));
  EXPECT_EQ(ShardTp(12, 3, 4), (Range{9, 12}));
}

TEST(ShardTp, OfOneRankIsAll) { EXPECT_EQ(ShardTp(12, 0, 1), (Range{0, 12})); }

TEST(ShardTp, PlainAndReplicatedTensorsMatchTheGoldenSlices) {
  const int compared = CompareWithGolden(
      "moe", [](TensorRole role) { return !IsPartSplit(role) && !IsKv(role); });
  EXPECT_GT(compared, 1000);
}

TEST(ShardTp, GivesTheLastRankOfAVocabularyTheRest) {
  EXPECT_EQ(ShardVocab(510, 7, 8), (Range{448, 510}));
}

TEST(ShardTp, GivesARankBeyondTheVocabularyNoRow) {
  EXPECT_EQ(ShardVocab(9, 4, 8), (Range{8, 9}));
  EXPECT_EQ(ShardVocab(9, 6, 8).size(), 0);
}

TEST(ShardTpParts, CutsEachPartOnItsOwn) {
  const int64_t parts[] = {8, 8, 16};
  EXPECT_THAT(ShardTpParts(parts, 1, 2),
              ElementsAre(Range{4, 8}, Range{12, 16}, Range{24, 32}));
}

TEST(ShardTpParts, RanksTogetherHoldEveryRowOnce) {
  const int64_t parts[] = {8, 24, 16};
  std::vector<int> held(48, 0);
  for (int rank = 0; rank < 8; ++rank)
    for (const Range& range : ShardTpParts(parts, rank, 8))
      for (int64_t i = range.begin; i < range.end; ++i)
        ++held[static_cast<size_t>(i)];
  EXPECT_THAT(held, testing::Each(1));
}

TEST(ShardTpParts, FusedTensorsMatchTheGoldenSlices) {
  EXPECT_GT(CompareWithGolden("moe", IsPartSplit), 50);
}

TEST(ShardTpPartsReplicate, CutsPartsThatHaveEnoughHeads) {
  const HeadPart parts[] = {{8, 4}, {2, 4}};
  EXPECT_THAT(ShardTpPartsReplicate(parts, 1, 2),
              ElementsAre(Range{16, 32}, Range{36, 40}));
}

TEST(ShardTpPartsReplicate, ReplicatesAHeadWhereRanksOutnumberThem) {
  const HeadPart parts[] = {{8, 4}, {2, 4}};
  EXPECT_THAT(ShardTpPartsReplicate(parts, 3, 8),
              ElementsAre(Range{12, 16}, Range{32, 36}));
  EXPECT_THAT(ShardTpPartsReplicate(parts, 4, 8),
              ElementsAre(Range{16, 20}, Range{36, 40}));
}

TEST(ShardTpPartsReplicate, GivesEachRankTheHeadThatItsQueriesRead) {
  for (int rank = 0; rank < 8; ++rank) {
    const Range queries = ShardTp(16, rank, 8);
    for (int64_t q = queries.begin; q < queries.end; ++q)
      EXPECT_EQ(ShardKvHeads(2, rank, 8).begin, q / (16 / 2));
  }
}

TEST(ShardTpPartsReplicate, KeysAndValuesMatchTheGoldenSlices) {
  EXPECT_GT(CompareWithGolden("moe", IsKv), 50);
}

TEST(SliceOfName, OfAnFp8ReleaseMatchesTheGoldenSlices) {
  EXPECT_GT(CompareWithGolden("moe_fp8", [](TensorRole) { return true; }),
            1000);
}

TEST(SliceOfName, KnowsNoNameOfAnotherFamily) {
  const auto config = LoadModelConfig(kMoe);
  ASSERT_OK(config);
  const auto shape = MakeLocalShape(*config, 0, 2);
  ASSERT_OK(shape);
  EXPECT_FALSE(
      SliceOfName("transformer.h.0.attn.weight", *config, *shape).has_value());
}

}  // namespace
}  // namespace phalanx
