// One suite over every transport: the contract of collective.h.

#include "worker/collective/collective.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <future>
#include <map>
#include <random>

#include "absl/strings/str_cat.h"
#include "common/reason.h"
#include "kernels/bf16.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/collective/groups.h"

namespace phalanx {
namespace {

using testing::HasSubstr;

class CollectiveContract : public testing::TestWithParam<GroupCase> {
 protected:
  CollectiveContract() : group_(MakeGroup(GetParam())) {}

  int size() const { return GetParam().size; }

  // The partials of all ranks for one call.
  std::vector<std::vector<float>> Partials(uint64_t call, int64_t count) const {
    std::vector<std::vector<float>> partials;
    for (int r = 0; r < size(); ++r)
      partials.push_back(Values(call * 16 + r, count));
    return partials;
  }

  Group group_;
};

bool EqualBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::vector<uint16_t> Rounded(const std::vector<float>& values) {
  std::vector<uint16_t> rounded;
  for (const float value : values) rounded.push_back(F32ToBf16(value));
  return rounded;
}

// Counts around the limits of vectors, of one-shot and of a slot of 1 MiB.
constexpr int64_t kCounts[] = {1, 3, 1023, 1024, 1025, 2500, 262'144, 300'007};

TEST_P(CollectiveContract, AllReduceGivesTheTreeOfAllPartialsOnEveryRank) {
  for (const int64_t count : kCounts) {
    const auto partials = Partials(count, count);
    const auto want = PairwiseSum(partials);

    OnEveryRank(group_, [&](Collective& rank) {
      std::vector<float> partial = partials[rank.rank()];
      std::vector<float> out(count);
      rank.AllReduceSum(MakeTensor(partial.data(), DType::kF32, 1, count),
                        MakeTensor(out.data(), DType::kF32, 1, count));
      EXPECT_TRUE(EqualBits(out, want)) << count;
      EXPECT_OK(rank.status());
    });
  }
}

TEST_P(CollectiveContract, AllReduceRoundsOnceToBf16) {
  for (const int64_t count : kCounts) {
    const auto partials = Partials(count, count);
    const auto want = Rounded(PairwiseSum(partials));

    OnEveryRank(group_, [&](Collective& rank) {
      std::vector<float> partial = partials[rank.rank()];
      std::vector<uint16_t> out(count);
      rank.AllReduceSum(MakeTensor(partial.data(), DType::kF32, 1, count),
                        MakeTensor(out.data(), DType::kBf16, 1, count));
      EXPECT_TRUE(out == want) << count;
    });
  }
}

TEST_P(CollectiveContract, AllReduceMayWriteOverItsPartial) {
  const auto partials = Partials(1, 5000);
  const auto want = PairwiseSum(partials);

  OnEveryRank(group_, [&](Collective& rank) {
    std::vector<float> data = partials[rank.rank()];
    const Tensor tensor = MakeTensor(data.data(), DType::kF32, 5, 1000);
    rank.AllReduceSum(tensor, tensor);
    EXPECT_TRUE(EqualBits(data, want));
  });
}

TEST_P(CollectiveContract, AllReduceOfNoTokensDoesNothing) {
  OnEveryRank(group_, [&](Collective& rank) {
    rank.AllReduceSum(MakeTensor(nullptr, DType::kF32, 0, 64),
                      MakeTensor(nullptr, DType::kBf16, 0, 64));
    EXPECT_OK(rank.Barrier());
  });
}

TEST_P(CollectiveContract, AllGatherPutsEveryRanksPartInItsPlace) {
  for (const int64_t count : kCounts) {
    const auto parts = Partials(count, count);
    std::vector<float> want;
    for (const auto& part : parts)
      want.insert(want.end(), part.begin(), part.end());

    OnEveryRank(group_, [&](Collective& rank) {
      std::vector<float> mine = parts[rank.rank()];
      std::vector<float> all(count * size());
      rank.AllGather(MakeTensor(mine.data(), DType::kF32, count),
                     MakeTensor(all.data(), DType::kF32, size(), count));
      EXPECT_TRUE(EqualBits(all, want)) << count;
    });
  }
}

TEST_P(CollectiveContract, BroadcastGivesRankZerosBytesToAll) {
  for (const int64_t length : {0, 1, 100, 1 << 20, (1 << 20) + 1, 5 << 20}) {
    std::string sent(length, '\0');
    for (int64_t i = 0; i < length; ++i) sent[i] = static_cast<char>(i * 7);

    OnEveryRank(group_, [&](Collective& rank) {
      std::string bytes = rank.rank() == 0 ? sent : "old";
      EXPECT_OK(rank.Broadcast(bytes));
      EXPECT_TRUE(bytes == sent) << length;
    });
  }
}

TEST_P(CollectiveContract, BroadcastAboveTheBoundIsRefusedAndCostsNothing) {
  std::string large(group_[0]->max_broadcast_bytes() + 1, 'x');

  EXPECT_THAT(group_[0]->Broadcast(large),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("must be at most")));
  OnEveryRank(group_, [](Collective& rank) { EXPECT_OK(rank.Barrier()); });
}

TEST_P(CollectiveContract, BarrierReturnsWhenEveryRankHasCalledIt) {
  std::atomic<int> arrived = 0;

  OnEveryRank(group_, [&](Collective& rank) {
    ++arrived;
    EXPECT_OK(rank.Barrier());
    EXPECT_EQ(arrived, size());
  });
}

// One call of a random sequence; whether it gave what the plain computation
// gives.
bool MixedCallIsRight(Collective& rank, std::mt19937& random, uint64_t call) {
  const int64_t count = 1 + random() % (random() % 8 == 0 ? 9000 : 300);
  std::vector<std::vector<float>> all;
  std::vector<float> joined;
  for (int r = 0; r < rank.size(); ++r) {
    all.push_back(Values(call * 16 + r, count));
    joined.insert(joined.end(), all[r].begin(), all[r].end());
  }
  const Tensor mine =
      MakeTensor(all[rank.rank()].data(), DType::kF32, 1, count);
  switch (random() % 5) {
    case 0: {
      std::vector<float> out(count);
      rank.AllReduceSum(mine, MakeTensor(out.data(), DType::kF32, 1, count));
      return EqualBits(out, PairwiseSum(all));
    }
    case 1: {
      std::vector<uint16_t> out(count);
      rank.AllReduceSum(mine, MakeTensor(out.data(), DType::kBf16, 1, count));
      return out == Rounded(PairwiseSum(all));
    }
    case 2: {
      std::vector<float> out(count * rank.size());
      rank.AllGather(
          mine, MakeTensor(out.data(), DType::kF32, rank.size(), 1, count));
      return EqualBits(out, joined);
    }
    case 3: {
      const std::string want(reinterpret_cast<const char*>(all[0].data()),
                             count * sizeof(float) - random() % 4);
      std::string bytes = rank.rank() == 0 ? want : "";
      return rank.Broadcast(bytes).ok() && bytes == want;
    }
    default:
      return rank.Barrier().ok();
  }
}

// A seeded sequence of calls. The first that is wrong ends the group.
void ExpectMixedCallsAreRight(Collective& rank, int calls) {
  std::mt19937 random(77);
  for (int call = 0; call < calls; ++call) {
    if (MixedCallIsRight(rank, random, call)) continue;
    ADD_FAILURE() << "rank " << rank.rank() << ", call " << call << ": "
                  << rank.status();
    return rank.Abort(absl::InternalError("wrong result"));
  }
  EXPECT_OK(rank.status());
}

TEST_P(CollectiveContract, ThousandsOfMixedCallsAreAllRight) {
  const int calls = size() <= 2 ? 2000 : size() == 4 ? 800 : 300;

  OnEveryRank(group_,
              [&](Collective& rank) { ExpectMixedCallsAreRight(rank, calls); });
}

TEST_P(CollectiveContract, NoReceiverOfManyBroadcastsMissesOne) {
  // Rank 0 need not wait, so it runs ahead of the others as far as it may.
  OnEveryRank(group_, [](Collective& rank) {
    for (int i = 0; i < 500; ++i) {
      std::string bytes = rank.rank() == 0 ? absl::StrCat(i) : "";
      ASSERT_OK(rank.Broadcast(bytes));
      ASSERT_EQ(bytes, absl::StrCat(i));
    }
  });
}

TEST_P(CollectiveContract, RanksMayLeaveInAnyOrderAfterTheLastCall) {
  OnEveryRank(group_, [&](Collective& rank) {
    std::string bytes = "plan";
    EXPECT_OK(rank.Broadcast(bytes));
    EXPECT_OK(rank.Barrier());
    group_[rank.rank()].reset();
  });
}

TEST_P(CollectiveContract, AbortBeforeAnyCallEndsTheGroupOnEveryRank) {
  group_.back()->Abort(absl::InternalError("diverged logits"));

  OnEveryRank(group_, [&](Collective& rank) {
    EXPECT_THAT(rank.Barrier(), StatusIs(absl::StatusCode::kUnavailable,
                                         HasSubstr("diverged logits")));
  });
}

TEST_P(CollectiveContract, AbortNamesTheRankTheCauseAndTheWord) {
  group_.back()->Abort(absl::InternalError("out of memory"));

  const Reason reason = ReasonOf(group_[0]->status());
  EXPECT_EQ(reason.word, "GROUP_LOST");
  EXPECT_EQ(reason.metadata.at("rank"), absl::StrCat(size() - 1));
  EXPECT_EQ(reason.metadata.at("cause"), "out of memory");
}

TEST_P(CollectiveContract, AbortPassesOnALostRankThatTheCallerNames) {
  group_.back()->Abort(ReasonedError(absl::StatusCode::kUnavailable,
                                     "GROUP_LOST", "rank 0 is lost",
                                     {{"rank", "0"}, {"cause", "silent"}}));

  const Reason reason = ReasonOf(group_.back()->status());
  EXPECT_EQ(reason.metadata.at("rank"), "0");
  EXPECT_EQ(reason.metadata.at("cause"), "silent");
}

TEST_P(CollectiveContract, TheFirstReasonCounts) {
  group_[0]->Abort(absl::InternalError("first"));
  group_.back()->Abort(absl::InternalError("second"));

  for (const auto& rank : group_)
    EXPECT_EQ(ReasonOf(rank->status()).metadata.at("cause"), "first");
}

TEST_P(CollectiveContract, AHugeReasonIsCut) {
  group_[0]->Abort(absl::InternalError(std::string(100'000, 'x')));

  EXPECT_LT(group_.back()->status().message().size(), 1000u);
}

TEST_P(CollectiveContract, EveryCallAfterTheEndReturnsAtOnce) {
  group_[0]->Abort(absl::InternalError("over"));
  Collective& rank = *group_.back();
  float in[4] = {};
  float out[64] = {};
  std::string bytes;

  rank.AllReduceSum(MakeTensor(in, DType::kF32, 1, 4),
                    MakeTensor(out, DType::kF32, 1, 4));
  rank.AllGather(MakeTensor(in, DType::kF32, 4),
                 MakeTensor(out, DType::kF32, size(), 4));
  EXPECT_FALSE(rank.Broadcast(bytes).ok());
  EXPECT_FALSE(rank.Barrier().ok());
  EXPECT_FALSE(rank.status().ok());
}

TEST_P(CollectiveContract, AbortWakesThoseThatWait) {
  if (size() == 1) GTEST_SKIP() << "one rank waits for nobody";

  std::vector<std::future<absl::Status>> waits;
  for (int r = 1; r < size(); ++r)
    waits.push_back(std::async(std::launch::async, [this, r] {
      std::string bytes;
      return group_[r]->Broadcast(bytes);
    }));
  group_[0]->Abort(absl::CancelledError("shutting down"));

  for (auto& wait : waits)
    EXPECT_THAT(wait.get(), StatusIs(absl::StatusCode::kUnavailable,
                                     HasSubstr("shutting down")));
}

TEST_P(CollectiveContract, ARankThatLeavesEndsTheWaitForIt) {
  if (size() == 1) GTEST_SKIP() << "one rank waits for nobody";

  std::future<absl::Status> wait =
      std::async(std::launch::async, [this] { return group_[0]->Barrier(); });
  group_[1].reset();

  const absl::Status status = wait.get();
  EXPECT_EQ(ReasonOf(status).word, "GROUP_LOST");
  EXPECT_EQ(ReasonOf(status).metadata.at("rank"), "1");
}

TEST_P(CollectiveContract, RanksThatMakeUnlikeCallsAreStopped) {
  if (size() == 1) GTEST_SKIP() << "one rank is like itself";

  OnEveryRank(group_, [](Collective& rank) {
    std::vector<float> data(64);
    const int64_t count = rank.rank() == 0 ? 32 : 64;
    const Tensor tensor = MakeTensor(data.data(), DType::kF32, 1, count);
    rank.AllReduceSum(tensor, tensor);
  });

  EXPECT_THAT(group_[0]->status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("diverged")));
}

std::vector<GroupCase> Cases() {
  std::vector<GroupCase> cases;
  for (const int size : {1, 2, 4, 8}) {
    cases.push_back({.transport = Transport::kLocal, .size = size});
    cases.push_back({.transport = Transport::kShm, .size = size});
  }
  cases.push_back({.transport = Transport::kShm, .size = 2, .spin = true});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Transports, CollectiveContract,
                         testing::ValuesIn(Cases()),
                         [](const auto& info) { return CaseName(info.param); });

// The promise of rule 1: eight slices, each rank adding its own subtree.
TEST(CollectiveSizes, GiveTheSameBitsForTheSameEightSlices) {
  constexpr int64_t kCount = 4096;
  std::vector<std::vector<float>> slices;
  for (int i = 0; i < 8; ++i) slices.push_back(Values(i + 1, kCount));
  const std::vector<float> want = PairwiseSum(slices);

  for (const Transport transport : {Transport::kLocal, Transport::kShm}) {
    for (const int size : {1, 2, 4, 8}) {
      OnEveryRank(
          MakeGroup({.transport = transport, .size = size}),
          [&](Collective& rank) {
            const int own = 8 / size;
            const auto first = slices.begin() + rank.rank() * own;
            std::vector<float> partial = PairwiseSum({first, first + own});
            std::vector<float> out(kCount);
            rank.AllReduceSum(
                MakeTensor(partial.data(), DType::kF32, 1, kCount),
                MakeTensor(out.data(), DType::kF32, 1, kCount));
            EXPECT_TRUE(EqualBits(out, want)) << size;
          });
    }
  }
}

TEST(CollectiveSizes, SixteenRanksAreAccepted) {
  for (const Transport transport : {Transport::kLocal, Transport::kShm})
    OnEveryRank(
        MakeGroup({.transport = transport, .size = 16, .slot_bytes = 4096}),
        [](Collective& rank) { EXPECT_OK(rank.Barrier()); });
}

// Slots so small that almost every call goes in pieces.
TEST(CollectivePieces, GiveTheSameAsAWholeMessage) {
  for (const int size : {2, 4}) {
    // The third is not a whole number of lines for each rank.
    for (const int64_t slot_bytes : {128, 16 * 1024, 16 * 1024 + 128}) {
      const Group group = MakeGroup({.transport = Transport::kShm,
                                     .size = size,
                                     .slot_bytes = slot_bytes});

      OnEveryRank(
          group, [](Collective& rank) { ExpectMixedCallsAreRight(rank, 100); });
    }
  }
}

}  // namespace
}  // namespace phalanx
