#ifndef PHALANX_WORKER_METRICS_EXPERT_TALLY_H_
#define PHALANX_WORKER_METRICS_EXPERT_TALLY_H_

#include <functional>

#include "common/mutex.h"
#include "worker/experts/expert_cache.h"

namespace phalanx {

// The expert cache's counters as metrics may show them: of service alone, and
// never going down while the process lives, though the cache counts warm-up
// too and may be reset. Any thread.
class ExpertTally {
 public:
  using Source = std::function<ExpertCacheCounters()>;

  // From here on the counters are these; an empty source, before the cache
  // dies: they stay as they are, with no slots.
  void SetSource(Source source);

  // Service begins, or is over; what comes in between counts.
  void Begin();
  void End();

  ExpertCacheCounters Read() const;

 private:
  ExpertCacheCounters Now() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  ExpertCacheCounters Sum() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  Source source_ ABSL_GUARDED_BY(mutex_);
  bool counting_ ABSL_GUARDED_BY(mutex_) = false;
  ExpertCacheCounters base_ ABSL_GUARDED_BY(mutex_);   // At Begin.
  ExpertCacheCounters total_ ABSL_GUARDED_BY(mutex_);  // Of earlier epochs.
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_METRICS_EXPERT_TALLY_H_
