#include "worker/collective/timed_collective.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <tuple>
#include <vector>

#include "common/reason.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/collective/groups.h"
#include "worker/collective/loss.h"

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// One rank's calls.
class Recorder final : public CollectiveObserver {
 public:
  void OnCall(CollectiveOp op, double seconds, int64_t bytes) override {
    EXPECT_GE(seconds, 0);
    calls.emplace_back(op, bytes);
  }
  void OnSkew(double seconds) override { skews.push_back(seconds); }
  void OnFailure(CollectiveOp op, CollectiveFailure reason) override {
    failures.emplace_back(op, reason);
  }

  std::vector<std::pair<CollectiveOp, int64_t>> calls;
  std::vector<double> skews;
  std::vector<std::pair<CollectiveOp, CollectiveFailure>> failures;
};

class TimedCollectiveTest : public testing::Test {
 protected:
  TimedCollectiveTest() {
    Group inner = MakeGroup({.transport = Transport::kShm, .size = 2});
    for (int r = 0; r < 2; ++r)
      group_.push_back(std::make_unique<TimedCollective>(
          std::move(inner[r]), recorders_[r], clock_));
  }

  MonotonicClock clock_;
  Recorder recorders_[2];
  Group group_;
};

TEST_F(TimedCollectiveTest, CallsAreShownWithTheirBytes) {
  OnEveryRank(group_, [](Collective& rank) {
    std::vector<float> partial(8, 1), sum(8), all(16);
    std::string bytes = rank.rank() == 0 ? "plan" : "";
    EXPECT_OK(rank.Broadcast(bytes));
    rank.AllReduceSum(MakeTensor(partial.data(), DType::kF32, 2, 4),
                      MakeTensor(sum.data(), DType::kF32, 2, 4));
    rank.AllGather(MakeTensor(partial.data(), DType::kF32, 8),
                   MakeTensor(all.data(), DType::kF32, 2, 8));
    EXPECT_OK(rank.Barrier());
  });

  for (const Recorder& recorder : recorders_)
    EXPECT_THAT(recorder.calls,
                ElementsAre(std::pair(CollectiveOp::kBroadcast, 4),
                            std::pair(CollectiveOp::kAllReduce, 32),
                            std::pair(CollectiveOp::kAllGather, 32),
                            std::pair(CollectiveOp::kBarrier, 0)));
}

TEST_F(TimedCollectiveTest, EveryRankSeesTheSameSkewOfACallThatWaitsForAll) {
  OnEveryRank(group_, [](Collective& rank) {
    std::string bytes = rank.rank() == 0 ? "plan" : "";
    EXPECT_OK(rank.Broadcast(bytes));
    EXPECT_OK(rank.Barrier());
    EXPECT_OK(rank.Barrier());
  });

  EXPECT_EQ(recorders_[0].skews.size(), 2u);
  EXPECT_EQ(recorders_[0].skews, recorders_[1].skews);
}

TEST_F(TimedCollectiveTest, SkewIsHowLateTheLastRankComes) {
  // Rank 0 may lose its processor between the signal and its arrival, but not
  // for half of this.
  constexpr double kLateSeconds = .2;
  std::atomic<bool> arriving{false};

  OnEveryRank(group_, [&](Collective& rank) {
    if (rank.rank() == 0) {
      arriving.store(true);
    } else {
      while (!arriving.load()) {
      }
      const double end = clock_.now_seconds() + kLateSeconds;
      while (clock_.now_seconds() < end) {
      }
    }
    EXPECT_OK(rank.Barrier());
  });

  EXPECT_GE(recorders_[0].skews.at(0), kLateSeconds / 2);
}

TEST_F(TimedCollectiveTest, TheSumIsTheOneInside) {
  const auto partials =
      std::vector<std::vector<float>>{Values(1, 300), Values(2, 300)};

  OnEveryRank(group_, [&](Collective& rank) {
    std::vector<float> mine = partials[rank.rank()], sum(300);
    rank.AllReduceSum(MakeTensor(mine.data(), DType::kF32, 1, 300),
                      MakeTensor(sum.data(), DType::kF32, 1, 300));
    EXPECT_EQ(sum, PairwiseSum(partials));
  });
}

TEST_F(TimedCollectiveTest, ALossIsToldOnceAndItsCallIsNoCall) {
  group_[1].reset();

  EXPECT_FALSE(group_[0]->Barrier().ok());
  EXPECT_FALSE(group_[0]->Barrier().ok());

  EXPECT_THAT(recorders_[0].calls, IsEmpty());
  EXPECT_THAT(recorders_[0].failures,
              ElementsAre(std::pair(CollectiveOp::kBarrier,
                                    CollectiveFailure::kPeerLost)));
}

TEST_F(TimedCollectiveTest, RanksThatCallDifferentThingsAreAMismatch) {
  OnEveryRank(group_, [](Collective& rank) {
    std::vector<float> values(8, 1), all(16);
    if (rank.rank() == 0)
      EXPECT_FALSE(rank.Barrier().ok());
    else
      rank.AllGather(MakeTensor(values.data(), DType::kF32, 8),
                     MakeTensor(all.data(), DType::kF32, 2, 8));
  });

  EXPECT_THAT(recorders_[0].failures,
              ElementsAre(std::pair(CollectiveOp::kBarrier,
                                    CollectiveFailure::kMismatch)));
}

TEST(CollectiveFailureOf, TellsTheReasonsApart) {
  EXPECT_EQ(CollectiveFailureOf(LossError(1, {0, "its process has ended"})),
            CollectiveFailure::kPeerLost);
  EXPECT_EQ(CollectiveFailureOf(LossError(1, {0, "diverged: it called x"})),
            CollectiveFailure::kMismatch);
  EXPECT_EQ(CollectiveFailureOf(absl::DeadlineExceededError("slow")),
            CollectiveFailure::kTimeout);
  EXPECT_EQ(CollectiveFailureOf(absl::InternalError("library")),
            CollectiveFailure::kLibrary);
}

}  // namespace
}  // namespace phalanx
