#ifndef PHALANX_WORKER_METRICS_EXPERT_TALLY_H_
#define PHALANX_WORKER_METRICS_EXPERT_TALLY_H_

#include <functional>

#include "common/mutex.h"
#include "worker/experts/expert_cache.h"

namespace phalanx {

// Where metrics look up what the cache of experts counted; it is made after
// them, or never. Any thread.
class ExpertTally {
 public:
  using Source = std::function<ExpertCacheCounters()>;

  // From here on the counters are these. They must answer as long as metrics
  // are served.
  void SetSource(Source source);

  // Zeros where there is no cache.
  ExpertCacheCounters Read() const;

 private:
  mutable Mutex mutex_;
  Source source_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_METRICS_EXPERT_TALLY_H_
