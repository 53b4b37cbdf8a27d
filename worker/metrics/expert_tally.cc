#include "worker/metrics/expert_tally.h"

#include <utility>

namespace phalanx {

void ExpertTally::SetSource(Source source) {
  MutexLock lock(mutex_);
  source_ = std::move(source);
}

ExpertCacheCounters ExpertTally::Read() const {
  MutexLock lock(mutex_);
  return source_ ? source_() : ExpertCacheCounters();
}

}  // namespace phalanx
