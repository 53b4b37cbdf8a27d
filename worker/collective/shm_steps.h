#ifndef PHALANX_WORKER_COLLECTIVE_SHM_STEPS_H_
#define PHALANX_WORKER_COLLECTIVE_SHM_STEPS_H_

#include <array>
#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "common/mutex.h"
#include "worker/collective/call.h"
#include "worker/collective/peer_watch.h"
#include "worker/collective/shm_segment.h"

namespace phalanx {

// OK, or why the group is over. Any thread.
absl::Status GroupStatus(const ShmSegment& segment);

// Ends the group for all and wakes them; the first one counts. `rank` is the
// caller's own, which does this one thread at a time.
void EndGroup(ShmSegment& segment, int rank, const Loss& loss);

// How the ranks of a segment keep step, and how they learn that one is gone.
//
// A call of the collective is one or more steps; at each a rank publishes its
// step number and then waits for others to have reached it. Nobody enters a
// call before everybody has arrived in the one before it, so nobody is still
// busy in the one before that: two slots, used in turn, are enough.
//
// Two ranks trade their slots at each exchange. What a rank writes then lies in
// lines that it has just read, in its own cache, and a line that comes with the
// peer's data goes back with one's own; else it would travel twice a call.
//
// A wait spins, then sleeps in the kernel. A sleeper looks about every 100 ms
// for the dead; news (a step, the end of the group, a rank that leaves) wakes
// it at once. A rank that is gone matters only to a wait that is not satisfied:
// what it had published before still counts.
//
// Made at formation, used by the engine thread (Abort: any thread), dies with
// its collective, before the segment.
class ShmSteps {
 public:
  ShmSteps(ShmSegment& segment, int rank, const PeerWatch& peers, bool spin)
      : segment_(segment),
        rank_(rank),
        size_(segment.shape().size),
        peers_(peers),
        spin_(spin),
        step_(segment.line(rank).step.load()),
        arrival_(step_) {
    seen_.fill(step_);
  }

  // Tells the others that this rank takes no more steps.
  ~ShmSteps();
  ShmSteps(const ShmSteps&) = delete;
  ShmSteps& operator=(const ShmSteps&) = delete;

  // Begins a call. False: the group is over, as from all the waits below.
  bool Enter();
  // Begins one in which every rank writes its slot and reads the others'.
  bool EnterExchange();

  // Where `rank`, and nobody else, writes in this call; shape().slot_bytes
  // long.
  char* slot(int rank) const {
    return segment_.slot(rank ^ traded_[parity_], parity_);
  }

  // Takes a step of this call.
  void Publish(CallTag tag);
  // On rank 0, a step that shows the length of a whole broadcast.
  void PublishBroadcast(CallTag tag, int64_t bytes);

  // Waits until all, or rank 0, have taken the step last published, and checks
  // that they mean the same call.
  bool AwaitAll();
  bool AwaitRoot();

  // Between the first and the last rank's arrival in the call that AwaitAll was
  // last used in; 0 before.
  double skew_seconds() const { return skew_seconds_; }

  // Whom this rank sleeps for just now; -1: nobody. Any thread.
  int awaited_rank() const { return awaited_rank_.load(); }

  // What rank 0 showed at this step. After AwaitRoot.
  uint64_t broadcast_bytes() const { return broadcast_bytes_; }

  // EndGroup, from any thread.
  void Abort(const Loss& loss);

 private:
  bool over() const { return segment_.header().over.load() != 0; }
  bool Reached(int rank, uint32_t step);
  bool Await(int rank, uint32_t step);
  bool SpinFor(int rank, uint32_t step);
  bool SleepFor(int rank, uint32_t step);
  bool SleepUntil(int rank, uint32_t step);
  bool CheckTag(int rank);
  double MeasureSkew() const;
  // The lowest rank that will take no more steps, and why; false if none.
  bool FindLoss(Loss& loss) const;

  ShmSegment& segment_;
  const int rank_;
  const int size_;
  const PeerWatch& peers_;
  const bool spin_;

  // Numbers wrap; they are only compared over short distances.
  uint32_t step_;     // Last one published.
  uint32_t arrival_;  // First one of this call.
  // The last step seen of each rank: what is known needs no look at its line,
  // which it may just be writing.
  std::array<uint32_t, kMaxRanks> seen_;
  // Which of each rank's two slots this call uses.
  int parity_ = 0;
  // By parity, 1: the two ranks write each other's slot. Always 0 in groups of
  // other sizes.
  std::array<int, 2> traded_{};
  CallTag tag_ = 0;
  double skew_seconds_ = 0;
  uint64_t broadcast_bytes_ = 0;

  std::atomic<int> awaited_rank_{-1};

  Mutex record_mutex_;  // Over the writing of this rank's record.
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_COLLECTIVE_SHM_STEPS_H_
