#ifndef PHALANX_WORKER_SCHEDULER_WAITING_QUEUE_H_
#define PHALANX_WORKER_SCHEDULER_WAITING_QUEUE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "worker/scheduler/sequence.h"

namespace phalanx {

// Its own priority and one more for each ageing_seconds that it has waited, up
// to the highest.
int EffectivePriority(const Sequence& sequence, double now,
                      double ageing_seconds);

// All that wait, in order of arrival: what comes back after a pre-emption has
// its old place again. Engine thread only.
class WaitingQueue {
 public:
  // It waits from now on.
  void Push(SequencePtr sequence, double now);
  // It is in here and waits no more.
  SequencePtr Take(Sequence& sequence, double now);
  // Destroys those that have their end.
  void ForgetEnded();

  std::span<const SequencePtr> all() const { return sequences_; }
  int64_t size() const { return static_cast<int64_t>(sequences_.size()); }
  bool empty() const { return sequences_.empty(); }

 private:
  std::vector<SequencePtr> sequences_;
};

// Whose turn it is: the highest effective priority, among these the key that
// was served least, among its requests the one that came first. Those that may
// be admitted are gathered once; what they were served may grow meanwhile, as
// it does when one of them is admitted. Suspects that are still to be tried and
// sequences of slow readers are not among them.
class AdmissionOrder {
 public:
  AdmissionOrder(const WaitingQueue& queue, double now, double ageing_seconds);

  // The next one, each once; null after the last.
  Sequence* Next();

 private:
  struct Candidate {
    int priority;    // Effective.
    double service;  // When it was put here.
    Sequence* sequence;
  };
  // Whether b's turn is before a's.
  static bool After(const Candidate& a, const Candidate& b);

  std::vector<Candidate> heap_;  // First turn on top.
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_SCHEDULER_WAITING_QUEUE_H_
