#include "worker/metrics/state_metrics.h"

#include <array>

namespace phalanx {
namespace {

constexpr MetricFacts kCapacity = {"phalanx_kv_cache_capacity_tokens",
                                   "Tokens that the KV blocks hold."};
constexpr MetricFacts kUsed = {
    "phalanx_kv_cache_used_tokens",
    "Tokens of the KV blocks that live sequences hold or have reserved."};
constexpr MetricFacts kReusable = {
    "phalanx_kv_cache_reusable_tokens",
    "Tokens of the KV blocks that only the prefix cache holds."};
constexpr MetricFacts kUsage = {"phalanx_kv_cache_usage_ratio",
                                "Used tokens / capacity."};
constexpr MetricFacts kBlock = {"phalanx_kv_cache_block_tokens",
                                "Tokens of a KV block."};
constexpr MetricFacts kSlots = {
    "phalanx_gdn_state_slots",
    "Slots of GDN state: of live sequences, of snapshots, free."};
constexpr MetricFacts kExpertSlots = {
    "phalanx_expert_cache_slots", "Slots on the device for offloaded experts."};
constexpr MetricFacts kLookups = {
    "phalanx_expert_lookups_total",
    "Experts that a layer of a step needed, by how they were had."};
constexpr MetricFacts kFetched = {
    "phalanx_expert_fetched_bytes_total",
    "Bytes fetched from the bank, prefetched ones included."};
constexpr MetricFacts kCachedTokens = {
    "phalanx_expert_tokens_total",
    "Tokens that looked experts up: phalanx_expert_fetched_bytes_total / this "
    "are the bytes that a token fetched."};
constexpr MetricFacts kImbalance = {
    "phalanx_expert_load_imbalance_ratio",
    "Most tokens of an expert / the mean, in the layer computed last."};
constexpr MetricFacts kProgress = {"phalanx_load_progress_ratio",
                                   "Of the weights' bytes, 0 to 1."};
constexpr MetricFacts kPhase = {"phalanx_startup_phase",
                                "1 for the phase that the rank is in."};
constexpr MetricFacts kPhaseSeconds = {
    "phalanx_startup_duration_seconds",
    "How long the rank was in a phase, the last time; in the present one, so "
    "far."};

struct Phase {
  WorkerState state;
  const char* name;
};
// In the order of a start.
constexpr std::array<Phase, 4> kPhases = {{{WorkerState::kLoading, "loading"},
                                           {WorkerState::kForming, "forming"},
                                           {WorkerState::kWarming, "warming"},
                                           {WorkerState::kReady, "ready"}}};

double Number(int64_t count) { return static_cast<double>(count); }

void ReadCaches(int rank, const SchedulerLimits& limits,
                const SchedulerCounts& counts, MetricReadings& readings) {
  // The group's are the smallest of its ranks', once there is a group.
  const int64_t blocks =
      counts.kv_blocks_total > 0 ? counts.kv_blocks_total : limits.kv_blocks;
  const int64_t slots = counts.state_slots_total > 0 ? counts.state_slots_total
                                                     : limits.state_slots;
  readings.Gauge(kBlock, Number(limits.block_tokens));
  readings.Gauge(kCapacity, Number(blocks * limits.block_tokens));
  if (rank != 0) return;
  readings.Gauge(kUsed, Number(counts.kv_blocks_used * limits.block_tokens));
  readings.Gauge(kReusable,
                 Number(counts.kv_blocks_reusable * limits.block_tokens));
  readings.Gauge(
      kUsage, blocks > 0 ? Number(counts.kv_blocks_used) / Number(blocks) : 0);
  readings.Gauge(kSlots, Number(counts.state_slots_used),
                 {{"state", "active"}});
  readings.Gauge(kSlots, Number(counts.state_slots_snapshot),
                 {{"state", "snapshot"}});
  readings.Gauge(
      kSlots,
      Number(slots - counts.state_slots_used - counts.state_slots_snapshot),
      {{"state", "free"}});
}

void ReadExperts(const ExpertCacheCounters& experts, MetricReadings& readings) {
  readings.Gauge(kExpertSlots, Number(experts.slots_used), {{"state", "used"}});
  readings.Gauge(kExpertSlots, Number(experts.slots - experts.slots_used),
                 {{"state", "free"}});
  readings.Counter(kLookups, Number(experts.hits), {{"result", "hit"}});
  readings.Counter(kLookups, Number(experts.fetches), {{"result", "fetched"}});
  readings.Counter(kLookups, 0, {{"result", "host_computed"}});
  readings.Counter(kFetched, Number(experts.fetched_bytes));
  readings.Counter(kCachedTokens, Number(experts.tokens));
  readings.Gauge(kImbalance, experts.imbalance);
}

void ReadStart(const WorkerSnapshot& now, MetricReadings& readings) {
  readings.Gauge(kProgress, now.load_progress);
  for (const Phase& phase : kPhases) {
    const MetricLabels labels = {{"phase", phase.name}};
    readings.Gauge(kPhase, now.state == phase.state ? 1 : 0, labels);
    readings.Gauge(kPhaseSeconds,
                   now.state_seconds[static_cast<size_t>(phase.state)], labels);
  }
}

}  // namespace

void AddStateMetrics(int rank, const SchedulerLimits& limits,
                     const StatusBoard& board, const ExpertTally& experts,
                     MetricRegistry& registry) {
  registry.AddReader([=, &board, &experts](MetricReadings& readings) {
    const WorkerSnapshot now = board.Read();
    ReadCaches(rank, limits, now.counts, readings);
    ReadExperts(experts.Read(), readings);
    ReadStart(now, readings);
  });
}

}  // namespace phalanx
