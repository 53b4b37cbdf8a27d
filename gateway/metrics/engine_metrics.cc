#include "gateway/metrics/engine_metrics.h"

#include <algorithm>

namespace phalanx {
namespace {

constexpr MetricFacts kPreemptions = {
    "phalanx_preemptions_total",
    "Running sequences that gave up their caches for others, by why."};
constexpr MetricFacts kQueried = {
    "phalanx_prefix_cache_queried_tokens_total",
    "Tokens that were looked for in the prefix cache."};
constexpr MetricFacts kHit = {"phalanx_prefix_cache_hit_tokens_total",
                              "Of these, tokens found there."};
constexpr MetricFacts kOldest = {
    "phalanx_queue_oldest_wait_seconds",
    "How long the sequence that has waited longest has waited, of all groups."};

}  // namespace

EngineMetrics::EngineMetrics(const std::string& model,
                             MetricRegistry& registry) {
  const auto preemptions = [&](const char* reason) {
    return &registry.AddCounter(kPreemptions, {{"reason", reason}});
  };
  counters_ = {preemptions("kv_full"), preemptions("state_full"),
               preemptions("priority"),
               &registry.AddCounter(kQueried, {{"model", model}}),
               &registry.AddCounter(kHit, {{"model", model}})};
  registry.AddReader([this](MetricReadings& readings) {
    double oldest = 0;
    {
      MutexLock lock(mutex_);
      for (const auto& [group, seen] : seen_)
        oldest = std::max(oldest, seen.oldest_seconds);
    }
    readings.Gauge(kOldest, oldest);
  });
}

EngineMetrics::Counts EngineMetrics::CountsOf(const v1::WorkerStatus& leader) {
  return {leader.preempted_for_kv(), leader.preempted_for_state(),
          leader.preempted_for_priority(), leader.prefix_queried_tokens(),
          leader.prefix_hit_tokens()};
}

void EngineMetrics::OnSeen(const std::string& group,
                           const v1::WorkerStatus& leader) {
  MutexLock lock(mutex_);
  Seen& seen = seen_[group];
  seen.oldest_seconds = leader.oldest_wait_seconds();
  if (leader.epoch() == 0) return;
  const Counts counts = CountsOf(leader);
  if (seen.epoch == 0)
    seen.counts = counts;
  else if (leader.epoch() != seen.epoch)
    seen.counts = {};
  seen.epoch = leader.epoch();
  for (int i = 0; i < kCounts; ++i) {
    const int64_t more = counts[i] - seen.counts[i];
    if (more > 0) counters_[i]->Increment(static_cast<double>(more));
  }
  seen.counts = counts;
}

}  // namespace phalanx
