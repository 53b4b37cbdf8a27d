#include "gateway/metrics/group_metrics.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace phalanx {
namespace {

constexpr MetricFacts kState = {"phalanx_group_state",
                                "1 for the state that the group is in."};
constexpr MetricFacts kTransitions = {"phalanx_group_transitions_total",
                                      "Changes of the group's state, by why."};
constexpr MetricFacts kEpoch = {"phalanx_group_epoch",
                                "The epoch that the ranks say they are in."};
constexpr MetricFacts kWorkers = {"phalanx_group_workers",
                                  "Ranks that answer."};
constexpr MetricFacts kExpected = {"phalanx_group_workers_expected",
                                   "Ranks of the group."};
constexpr MetricFacts kLastStep = {
    "phalanx_group_last_step_timestamp_seconds",
    "When rank 0 was last seen to have completed a step, in seconds since the "
    "epoch of Unix; 0 before the first."};
constexpr MetricFacts kHeartbeat = {
    "phalanx_worker_last_heartbeat_timestamp_seconds",
    "When the rank last answered, in seconds since the epoch of Unix; before "
    "that, when this gateway began to ask."};

// GroupStatus.state, and degraded, which no group can be in yet.
constexpr std::array<const char*, 7> kStates = {
    "forming", "loading", "warming", "ready", "degraded", "draining", "failed"};

constexpr char kProgress[] = "progress";
constexpr char kRankLost[] = "rank_lost";

// Why a group went from one state to the other. One that falls back has lost a
// rank, which may be seen only when its successor already loads; but a rank
// that has just loaded goes back to forming, unless it is `gone`.
const char* ReasonOfMove(const std::string& from, const std::string& to,
                         bool gone) {
  if (to == "draining") return "draining";
  if (to == "failed") return "failed";
  if (to == "ready" || from == "forming") return kProgress;
  if (from == "loading") return to == "forming" && gone ? kRankLost : kProgress;
  return kRankLost;
}

std::string Key(const std::string& from, const std::string& to,
                const std::string& reason) {
  return absl::StrCat(from, ">", to, ">", reason);
}

}  // namespace

GroupMetrics::GroupMetrics(const std::string& group, int ranks,
                           std::function<double()> wall_seconds,
                           WorkerCalls& calls, EngineMetrics& engines,
                           MetricRegistry& registry)
    : group_(group),
      wall_seconds_(std::move(wall_seconds)),
      calls_(calls),
      engines_(engines),
      epoch_(registry.AddGauge(kEpoch, {{"group", group}})),
      workers_(registry.AddGauge(kWorkers, {{"group", group}})),
      last_step_(registry.AddGauge(kLastStep, {{"group", group}})) {
  for (const char* state : kStates)
    states_[state] =
        &registry.AddGauge(kState, {{"group", group}, {"state", state}});
  states_[seen_state_]->Set(1);
  AddTransitions(group, registry);
  registry.AddGauge(kExpected, {{"group", group}}).Set(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    heartbeats_.push_back(&registry.AddGauge(
        kHeartbeat, {{"group", group}, {"rank", absl::StrCat(rank)}}));
    heartbeats_.back()->Set(wall_seconds_());
  }
}

void GroupMetrics::AddTransitions(const std::string& group,
                                  MetricRegistry& registry) {
  for (const std::string from : kStates) {
    for (const std::string to : kStates) {
      if (from == to || from == "degraded" || to == "degraded") continue;
      for (const bool gone : {false, true}) {
        const char* const reason = ReasonOfMove(from, to, gone);
        prometheus::Counter*& counter = transitions_[Key(from, to, reason)];
        if (counter == nullptr)
          counter = &registry.AddCounter(kTransitions, {{"group", group},
                                                        {"from", from},
                                                        {"to", to},
                                                        {"reason", reason}});
      }
    }
  }
}

void GroupMetrics::Move(const std::string& from, const std::string& to,
                        bool gone) {
  transitions_.at(Key(from, to, ReasonOfMove(from, to, gone)))->Increment();
}

void GroupMetrics::OnSeen(const WorkerGroup::View& view) {
  const auto reachable =
      std::count_if(view.ranks.begin(), view.ranks.end(),
                    [](const auto& rank) { return rank.reachable(); });
  const bool whole = reachable == static_cast<int64_t>(view.ranks.size());
  // A group that was lost and is whole again since the look before was forming
  // in between.
  if (seen_state_ == "ready" && view.state == "ready" &&
      view.epoch != seen_epoch_) {
    Move("ready", "forming", /*gone=*/true);
    seen_state_ = "forming";
  }
  if (view.state != seen_state_) Move(seen_state_, view.state, !whole);
  seen_state_ = view.state;
  for (const auto& [state, gauge] : states_)
    gauge->Set(state == view.state ? 1 : 0);
  epoch_.Set(static_cast<double>(view.epoch));
  workers_.Set(static_cast<double>(reachable));
  const double now = wall_seconds_();
  for (size_t r = 0; r < heartbeats_.size(); ++r)
    if (view.ranks[r].reachable()) heartbeats_[r]->Set(now);
  engines_.OnSeen(group_, view.leader());
  // Steps are counted from 0 in each epoch, those of requests alone.
  const int64_t steps = view.leader().steps();
  if (steps > 0 && (steps != seen_steps_ || view.epoch != seen_epoch_))
    last_step_.Set(now);
  seen_steps_ = steps;
  seen_epoch_ = view.epoch;
}

}  // namespace phalanx
