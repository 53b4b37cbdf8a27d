// The protocol alone, by threads that share one mapping: here ThreadSanitizer
// sees both sides of every access to a slot, which it cannot between mappings.

#include "worker/collective/shm_steps.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "common/reason.h"
#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

// Of two ranks, which trade slots, and of four.
class ShmStepsTest : public testing::TestWithParam<int> {
 protected:
  ShmStepsTest()
      : segment_(*ShmSegment::Create(
            NewSegmentName(9),
            {.size = size_, .epoch = 9, .slot_bytes = kMinSlotBytes})) {
    segment_->Unlink();
    for (int r = 0; r < size_; ++r)
      steps_.push_back(
          std::make_unique<ShmSteps>(*segment_, r, peers_, r % 2 == 0));
  }

  // Takes one call with both ranks of two; returns where each wrote.
  template <bool (ShmSteps::*enter)()>
  std::array<char*, 2> PlacesOfACall() {
    for (const auto& steps : steps_) {
      EXPECT_TRUE((steps.get()->*enter)());
      steps->Publish(MakeCallTag(CallKind::kAllGather, 1));
    }
    for (const auto& steps : steps_) EXPECT_TRUE(steps->AwaitAll());
    EXPECT_EQ(steps_[0]->slot(0), steps_[1]->slot(0));
    EXPECT_EQ(steps_[0]->slot(1), steps_[1]->slot(1));
    return {steps_[0]->slot(0), steps_[0]->slot(1)};
  }

  static int64_t& Slot(const ShmSteps& steps, int rank) {
    return *reinterpret_cast<int64_t*>(steps.slot(rank));
  }

  // A call that all wait for: everyone writes its slot and reads all.
  bool ExchangeIsRight(int rank, int64_t call) {
    ShmSteps& steps = *steps_[rank];
    if (!steps.EnterExchange()) return false;
    Slot(steps, rank) = call * size_ + rank;
    steps.Publish(MakeCallTag(CallKind::kAllGather, call));
    if (!steps.AwaitAll()) return false;
    bool right = true;
    for (int r = 0; r < size_; ++r) right &= Slot(steps, r) == call * size_ + r;
    return right;
  }

  // A call in which rank 0 writes and runs on.
  bool BroadcastIsRight(int rank, int64_t call) {
    ShmSteps& steps = *steps_[rank];
    const CallTag tag = MakeCallTag(CallKind::kBroadcast, call);
    if (!steps.Enter()) return false;
    if (rank == 0) {
      Slot(steps, 0) = call;
      steps.PublishBroadcast(tag, call);
      return true;
    }
    steps.Publish(tag);
    return steps.AwaitRoot() && Slot(steps, 0) == call &&
           steps.broadcast_bytes() == static_cast<uint64_t>(call);
  }

  const int size_ = GetParam();
  std::unique_ptr<ShmSegment> segment_;
  PeerWatch peers_;  // Of nobody: all ranks are this process.
  std::vector<std::unique_ptr<ShmSteps>> steps_;
};

TEST_P(ShmStepsTest, NobodyWritesASlotThatAnotherStillReads) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size_; ++rank) {
    threads.emplace_back([this, rank] {
      std::mt19937 random(3);
      for (int64_t call = 0; call < 2000; ++call) {
        const bool right = random() % 2 == 0 ? ExchangeIsRight(rank, call)
                                             : BroadcastIsRight(rank, call);
        if (right) continue;
        ADD_FAILURE() << "rank " << rank << ", call " << call;
        return steps_[rank]->Abort({rank, "wrong"});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();

  EXPECT_OK(GroupStatus(*segment_));
}

TEST_P(ShmStepsTest, ManyAbortsAtOnceLeaveOneWholeReason) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 2 * size_; ++i)
    threads.emplace_back([this, i] {
      const int rank = i % size_;
      steps_[rank]->Abort({rank, "ended by " + std::to_string(rank)});
      EXPECT_FALSE(GroupStatus(*segment_).ok());
    });
  for (std::thread& thread : threads) thread.join();

  const Reason reason = ReasonOf(GroupStatus(*segment_));
  EXPECT_EQ(reason.metadata.at("cause"),
            "ended by " + reason.metadata.at("rank"));
}

TEST_P(ShmStepsTest, LengthsFromTheSegmentAreBounded) {
  steps_[1]->Abort({1, "cause"});
  segment_->record(1).cause_bytes = 0x7fffffff;
  segment_->record(1).lost_rank = -5;
  segment_->header().over = 99;

  EXPECT_LT(GroupStatus(*segment_).message().size(), 1000u);
}

TEST_P(ShmStepsTest, NumbersOfStepsMayWrap) {
  // All ranks as if they had taken steps up to just before the limit.
  for (int r = 0; r < size_; ++r) segment_->line(r).step = 0xfffffff0u;
  steps_.clear();
  for (int r = 0; r < size_; ++r) {
    segment_->line(r).left = 0;
    steps_.push_back(std::make_unique<ShmSteps>(*segment_, r, peers_, false));
  }
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size_; ++rank)
    threads.emplace_back([this, rank] {
      for (int64_t call = 0; call < 64; ++call)
        ASSERT_TRUE(ExchangeIsRight(rank, call)) << call;
    });

  for (std::thread& thread : threads) thread.join();
}

INSTANTIATE_TEST_SUITE_P(Sizes, ShmStepsTest, testing::Values(2, 4));

using ShmStepsOfTwo = ShmStepsTest;

TEST_P(ShmStepsOfTwo, WriteWhereThePeerWroteInTheExchangeBeforeTheLast) {
  std::array<std::array<char*, 2>, 6> calls;
  for (auto& places : calls) places = PlacesOfACall<&ShmSteps::EnterExchange>();

  for (size_t i = 2; i < calls.size(); ++i) {
    EXPECT_EQ(calls[i][0], calls[i - 2][1]) << i;
    EXPECT_EQ(calls[i][1], calls[i - 2][0]) << i;
  }
  EXPECT_NE(calls[0][0], calls[1][0]);
  EXPECT_NE(calls[0][0], calls[1][1]);
}

TEST_P(ShmStepsOfTwo, TradeNothingInACallThatIsNoExchange) {
  const auto before = PlacesOfACall<&ShmSteps::EnterExchange>();
  PlacesOfACall<&ShmSteps::Enter>();
  PlacesOfACall<&ShmSteps::Enter>();
  PlacesOfACall<&ShmSteps::Enter>();
  const auto after = PlacesOfACall<&ShmSteps::EnterExchange>();

  EXPECT_EQ(after[0], before[1]);
  EXPECT_EQ(after[1], before[0]);
}

INSTANTIATE_TEST_SUITE_P(Sizes, ShmStepsOfTwo, testing::Values(2));

}  // namespace
}  // namespace phalanx
