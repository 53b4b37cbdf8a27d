#ifndef PHALANX_WORKER_SCHEDULER_CACHE_ACCOUNT_H_
#define PHALANX_WORKER_SCHEDULER_CACHE_ACCOUNT_H_

#include <cstdint>

#include "worker/cache/prefix_cache.h"
#include "worker/scheduler/limits.h"
#include "worker/scheduler/sequence.h"
#include "worker/scheduler/step_plan.h"

namespace phalanx {

// What running sequences hold of the caches, and what they were promised. A
// sequence is admitted with a number of blocks that it is sure to get; it takes
// them one by one as it grows. What is promised and not taken yet never exceeds
// what can be had: slack() >= 0 at all times. Engine thread only.
class CacheAccount {
 public:
  // Passed ValidateLimits.
  explicit CacheAccount(const SchedulerLimits& limits);

  // --- KV blocks and the state of a sequence

  // Admits a sequence that waits, with a slot and blocks for `tokens` (at least
  // all its rows) promised. Begins with the longest prefix that it may take
  // from others; the copies for that go into `plan`. Nothing and false if
  // blocks are lacking; a slot never is, since there are max_running.
  bool Admit(Sequence& sequence, int64_t tokens, StepPlan& plan);
  // Blocks for its first `tokens` tokens. Nothing and false if that is beyond
  // what it was promised and nothing else is left.
  bool Extend(Sequence& sequence, int64_t tokens);
  // Takes back all it holds; it begins anew when it is admitted again.
  void Release(Sequence& sequence);

  // Blocks that nobody holds or was promised.
  int64_t slack() const { return cache_.available_blocks() - promised_; }
  // What its Release adds to slack() at most.
  static int64_t Share(const Sequence& sequence);

  // --- States that are kept for others

  // `plan` brings this sequence to `tokens` tokens: if a state there is worth
  // keeping and a slot can be had, `plan` saves it.
  void Save(Sequence& sequence, int64_t tokens, StepPlan& plan);
  // The step of that plan was run: the prefix is kept. Nothing without a Save.
  void Keep(Sequence& sequence);
  // That state is not to be kept.
  void Discard(Sequence& sequence);
  // Nor is any that the sequence made.
  void DropSnapshots(Sequence& sequence);
  // Tokens of the longest kept prefix that it may take.
  int64_t Longest(const Sequence& sequence) const;
  // How many prefixes were ever kept; when it grows, a prefix may be longer.
  int64_t inserts() const { return inserts_; }

  PrefixCache::Counts counts() const { return cache_.counts(); }

 private:
  const int64_t block_tokens_;
  PrefixCache cache_;
  int64_t promised_ = 0;  // Blocks promised and not taken.
  int64_t inserts_ = 0;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_SCHEDULER_CACHE_ACCOUNT_H_
