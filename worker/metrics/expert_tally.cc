#include "worker/metrics/expert_tally.h"

#include <algorithm>
#include <utility>

namespace phalanx {
namespace {

// What `now` has more than `base`; all of it where the cache was reset since.
int64_t Since(int64_t now, int64_t base) {
  return now >= base ? now - base : now;
}

}  // namespace

ExpertCacheCounters ExpertTally::Now() const {
  return source_ ? source_() : ExpertCacheCounters();
}

ExpertCacheCounters ExpertTally::Sum() const {
  ExpertCacheCounters now = Now();
  if (!counting_) {
    now.hits = now.fetches = now.fetched_bytes = 0;
    now.imbalance = 0;
  } else {
    now.hits = Since(now.hits, base_.hits);
    now.fetches = Since(now.fetches, base_.fetches);
    now.fetched_bytes = Since(now.fetched_bytes, base_.fetched_bytes);
  }
  now.hits += total_.hits;
  now.fetches += total_.fetches;
  now.fetched_bytes += total_.fetched_bytes;
  return now;
}

void ExpertTally::SetSource(Source source) {
  MutexLock lock(mutex_);
  total_ = Sum();
  source_ = std::move(source);
  base_ = Now();
}

void ExpertTally::Begin() {
  MutexLock lock(mutex_);
  counting_ = true;
  base_ = Now();
}

void ExpertTally::End() {
  MutexLock lock(mutex_);
  total_ = Sum();
  counting_ = false;
}

ExpertCacheCounters ExpertTally::Read() const {
  MutexLock lock(mutex_);
  return Sum();
}

}  // namespace phalanx
