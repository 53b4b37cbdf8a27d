// Embed, SelectOwner, GatherRows.

#include "tests/kernels/ops_contract.h"

namespace phalanx {
namespace {

using testing::ElementsAre;

TEST_P(OpsContract, EmbedCopiesTheRowsThatThisRankOwns) {
  const Tensor table = rig_.Bf16({3, 2}, {1, 2, 3, 4, 5, 6});
  const Tensor y = rig_.Act({3, 2});

  ops_.Embed(rig_.I32({3}, {12, 10, 11}), table, /*first_id=*/10, y);

  EXPECT_THAT(rig_.Read(y), ElementsAre(5, 6, 1, 2, 3, 4));
}

TEST_P(OpsContract, EmbedGivesZerosForRowsOfOtherRanks) {
  const Tensor table = rig_.Bf16({3, 2}, {1, 2, 3, 4, 5, 6});
  const Tensor y = rig_.Act({3, 2});

  ops_.Embed(rig_.I32({3}, {9, 13, 0}), table, /*first_id=*/10, y);

  EXPECT_THAT(rig_.Read(y), ElementsAre(0, 0, 0, 0, 0, 0));
}

TEST_P(OpsContract, SelectOwnerTakesEachRowFromTheRankThatOwnsItsId) {
  const Tensor gathered = rig_.Act({2, 3, 1}, {1, 2, 3, 10, 20, 30});
  const Tensor y = rig_.Act({3, 1});

  ops_.SelectOwner(rig_.I32({3}, {4, 5, 9}), /*rows_per_rank=*/5, gathered, y);

  EXPECT_THAT(rig_.Read(y), ElementsAre(1, 20, 30));
}

TEST_P(OpsContract, GatherRowsMayRepeatAndReorderRows) {
  const Tensor x = rig_.Act({3, 2}, {1, 2, 3, 4, 5, 6});
  const Tensor y = rig_.Act({4, 2});

  ops_.GatherRows(x, rig_.I32({4}, {2, 0, 2, 1}), y);

  EXPECT_THAT(rig_.Read(y), ElementsAre(5, 6, 1, 2, 5, 6, 3, 4));
}

TEST_P(OpsContract, GatherRowsReadsABlockOfColumns) {
  const Tensor x = rig_.Act({2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor y = rig_.Act({1, 1});

  ops_.GatherRows(SplitColumns<2>(x, {2, 1})[1], rig_.I32({1}, {1}), y);

  EXPECT_THAT(rig_.Read(y), ElementsAre(6));
}

TEST_P(OpsContractDeathTest, EmbedRefusesIdsThatAreNotIntegers) {
  const Tensor y = rig_.Act({1, 2});
  const Tensor table = rig_.Bf16({1, 2}, {1, 2});

  EXPECT_DEATH(ops_.Embed(rig_.Param({1}, {0}), table, 0, y), "ids");
}

TEST_P(OpsContractDeathTest, GatherRowsRefusesAResultOfAnotherLength) {
  const Tensor x = rig_.Act({2, 2}, {1, 2, 3, 4});

  EXPECT_DEATH(ops_.GatherRows(x, rig_.I32({1}, {0}), x), "rows.dims");
}

PHALANX_FOR_EVERY_BACKEND(OpsContract);
PHALANX_FOR_EVERY_BACKEND(OpsContractDeathTest);

}  // namespace
}  // namespace phalanx
