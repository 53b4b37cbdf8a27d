// Embed, SelectOwner, GatherRows, Copy.

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

TEST_P(OpsContract, CopyKeepsEveryBit) {
  // Numbers that a detour over bf16 would change, and no numbers at all.
  const Ints bits = {0x3f800001, 0x7fc12345, 1, -2147483647, -1, 0x7f800001};
  const Tensor y = rig_.I32({2, 3}, {0, 0, 0, 0, 0, 0});

  ops_.Copy(rig_.I32({2, 3}, bits), y);

  EXPECT_EQ(rig_.ReadInts(y), bits);
}

TEST_P(OpsContract, CopyTakesNumbersOfTheActivationType) {
  const Tensor y = rig_.Act({2, 3});

  ops_.Copy(rig_.Act({2, 3}, {1, 2, 3, 4, 5, 6}), y);

  EXPECT_THAT(rig_.Read(y), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_P(OpsContract, CopyMovesRowsWithinATensor) {
  const Tensor x = rig_.F32({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  // Row 0 to row 1 and row 2 to row 3 in one, as caches lie.
  Tensor from = Rows(x, 0, 2), to = Rows(x, 1, 2);
  from.row_stride = to.row_stride = 2 * x.row_stride;

  ops_.Copy(from, to);

  EXPECT_THAT(rig_.Read(x), ElementsAre(1, 2, 1, 2, 5, 6, 5, 6));
}

TEST_P(OpsContract, CopyOntoItselfDoesNothing) {
  const Tensor x = rig_.F32({1, 3}, {1, 2, 3});

  ops_.Copy(x, x);

  EXPECT_THAT(rig_.Read(x), ElementsAre(1, 2, 3));
}

TEST_P(OpsContractDeathTest, CopyRefusesAnotherType) {
  const Tensor x = rig_.F32({1, 2}, {1, 2});

  EXPECT_DEATH(ops_.Copy(x, rig_.I32({1, 2}, {1, 2})), "x.dtype");
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
