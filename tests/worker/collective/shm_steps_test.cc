// The protocol alone, by threads that share one mapping: here ThreadSanitizer
// sees both sides of every access to a slot, which it cannot between mappings.

#include "worker/collective/shm_steps.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "common/reason.h"
#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

class ShmStepsTest : public testing::Test {
 protected:
  static constexpr int kSize = 4;

  ShmStepsTest()
      : segment_(*ShmSegment::Create(
            NewSegmentName(9),
            {.size = kSize, .epoch = 9, .slot_bytes = kMinSlotBytes})) {
    segment_->Unlink();
    for (int r = 0; r < kSize; ++r)
      steps_.push_back(
          std::make_unique<ShmSteps>(*segment_, r, peers_, r % 2 == 0));
  }

  int64_t& Slot(int rank, int parity) {
    return *reinterpret_cast<int64_t*>(segment_->slot(rank, parity));
  }

  // A call that all wait for: everyone writes its slot and reads all.
  bool ExchangeIsRight(int rank, int64_t call) {
    ShmSteps& steps = *steps_[rank];
    if (!steps.Enter()) return false;
    Slot(rank, steps.parity()) = call * kSize + rank;
    steps.Publish(MakeCallTag(CallKind::kAllGather, call));
    if (!steps.AwaitAll()) return false;
    bool right = true;
    for (int r = 0; r < kSize; ++r)
      right &= Slot(r, steps.parity()) == call * kSize + r;
    return right;
  }

  // A call in which rank 0 writes and runs on.
  bool BroadcastIsRight(int rank, int64_t call) {
    ShmSteps& steps = *steps_[rank];
    const CallTag tag = MakeCallTag(CallKind::kBroadcast, call);
    if (!steps.Enter()) return false;
    if (rank == 0) {
      Slot(0, steps.parity()) = call;
      steps.PublishBroadcast(tag, call);
      return true;
    }
    steps.Publish(tag);
    return steps.AwaitRoot() && Slot(0, steps.parity()) == call &&
           steps.broadcast_bytes() == static_cast<uint64_t>(call);
  }

  std::unique_ptr<ShmSegment> segment_;
  PeerWatch peers_;  // Of nobody: all ranks are this process.
  std::vector<std::unique_ptr<ShmSteps>> steps_;
};

TEST_F(ShmStepsTest, NobodyWritesASlotThatAnotherStillReads) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kSize; ++rank) {
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

TEST_F(ShmStepsTest, ManyAbortsAtOnceLeaveOneWholeReason) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 2 * kSize; ++i)
    threads.emplace_back([this, i] {
      const int rank = i % kSize;
      steps_[rank]->Abort({rank, "ended by " + std::to_string(rank)});
      EXPECT_FALSE(GroupStatus(*segment_).ok());
    });
  for (std::thread& thread : threads) thread.join();

  const Reason reason = ReasonOf(GroupStatus(*segment_));
  EXPECT_EQ(reason.metadata.at("cause"),
            "ended by " + reason.metadata.at("rank"));
}

TEST_F(ShmStepsTest, LengthsFromTheSegmentAreBounded) {
  steps_[1]->Abort({1, "cause"});
  segment_->record(1).cause_bytes = 0x7fffffff;
  segment_->record(1).lost_rank = -5;
  segment_->header().over = 99;

  EXPECT_LT(GroupStatus(*segment_).message().size(), 1000u);
}

TEST_F(ShmStepsTest, NumbersOfStepsMayWrap) {
  // All ranks as if they had taken steps up to just before the limit.
  for (int r = 0; r < kSize; ++r) segment_->line(r).step = 0xfffffff0u;
  steps_.clear();
  for (int r = 0; r < kSize; ++r) {
    segment_->line(r).left = 0;
    steps_.push_back(std::make_unique<ShmSteps>(*segment_, r, peers_, false));
  }
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kSize; ++rank)
    threads.emplace_back([this, rank] {
      for (int64_t call = 0; call < 64; ++call)
        ASSERT_TRUE(ExchangeIsRight(rank, call)) << call;
    });

  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace phalanx
