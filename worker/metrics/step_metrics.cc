#include "worker/metrics/step_metrics.h"

#include <algorithm>
#include <vector>

namespace phalanx {
namespace {

constexpr MetricFacts kStepSeconds = {
    "phalanx_step_duration_seconds",
    "A step for requests: on rank 0 from its plan's sending to its tokens' "
    "delivery, on others the forward pass."};
constexpr MetricFacts kStepTokens = {"phalanx_step_tokens",
                                     "Rows that a step computed."};
constexpr MetricFacts kCallSeconds = {
    "phalanx_collective_duration_seconds",
    "A call within a step, the wait for slower ranks included."};
constexpr MetricFacts kCallBytes = {
    "phalanx_collective_bytes_total",
    "Bytes that this rank gave to calls within steps."};
constexpr MetricFacts kFailures = {
    "phalanx_collective_failures_total",
    "Groups that this rank saw end in a call, by the call and why."};
constexpr MetricFacts kSkewSeconds = {
    "phalanx_collective_skew_seconds",
    "From the first rank's arrival in a call within a step to the last one's; "
    "every rank shows the same."};
constexpr MetricFacts kFetchSeconds = {
    "phalanx_expert_fetch_duration_seconds",
    "Fetch of one expert from the bank into a slot."};

constexpr std::array<const char*, 3> kPhaseNames = {"prefill", "decode",
                                                    "mixed"};
constexpr std::array<const char*, kCollectiveOps> kOpNames = {
    "all_reduce", "all_gather", "broadcast", "barrier"};
constexpr std::array<const char*, kCollectiveFailures> kFailureNames = {
    "timeout", "peer_lost", "mismatch", "library"};

const std::vector<double> kStepBounds = {
    .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30};
const std::vector<double> kCallBounds = {5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4,
                                         5e-4, .001, .002, .005, .01,  .05,
                                         .1,   .5,   1,    5};
const std::vector<double> kFetchBounds = {
    1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, .001, .0025,
    .005, .01,    .025, .05,  .1,     .25,  .5,   1};

}  // namespace

StepMetrics::StepMetrics(const std::string& transport, const Clock& clock,
                         MetricRegistry& registry)
    : clock_(clock),
      skew_seconds_(registry.AddHistogram(kSkewSeconds, kCallBounds)),
      fetch_seconds_(registry.AddHistogram(kFetchSeconds, kFetchBounds)) {
  for (int i = 0; i < kPhases; ++i) {
    const MetricLabels labels = {{"phase", kPhaseNames[i]}};
    step_seconds_[i] =
        &registry.AddHistogram(kStepSeconds, kStepBounds, labels);
    step_tokens_[i] = &registry.AddHistogram(
        kStepTokens, ExponentialBounds(1, 2, 14), labels);
  }
  for (int i = 0; i < kCollectiveOps; ++i) {
    const MetricLabels labels = {{"op", kOpNames[i]}, {"transport", transport}};
    call_seconds_[i] =
        &registry.AddHistogram(kCallSeconds, kCallBounds, labels);
    call_bytes_[i] = &registry.AddCounter(kCallBytes, labels);
    for (int j = 0; j < kCollectiveFailures; ++j)
      failures_[i][j] = &registry.AddCounter(
          kFailures, {{"op", kOpNames[i]}, {"reason", kFailureNames[j]}});
  }
}

// A prompt's last row on its own looks like a decode and costs the same.
StepMetrics::Phase StepMetrics::PhaseOf(const StepPlan& plan) {
  const auto decodes = std::count_if(
      plan.sequences.begin(), plan.sequences.end(),
      [](const PlannedSequence& sequence) {
        return sequence.past > 0 && sequence.token_ids.size() == 1;
      });
  if (decodes == 0) return kPrefill;
  return decodes == static_cast<int64_t>(plan.sequences.size()) ? kDecode
                                                                : kMixed;
}

void StepMetrics::OnStepBegin(const StepPlan&) {
  in_step_ = true;
  step_began_seconds_ = clock_.now_seconds();
}

void StepMetrics::OnStepEnd(const StepPlan& plan) {
  in_step_ = false;
  const Phase phase = PhaseOf(plan);
  step_seconds_[phase]->Observe(clock_.now_seconds() - step_began_seconds_);
  step_tokens_[phase]->Observe(static_cast<double>(plan.token_count()));
}

void StepMetrics::OnServing() { serving_.store(true); }

void StepMetrics::Pause() {
  in_step_ = false;
  serving_.store(false);
}

void StepMetrics::OnCall(CollectiveOp op, double seconds, int64_t bytes) {
  if (!in_step_) return;
  call_seconds_[static_cast<size_t>(op)]->Observe(seconds);
  call_bytes_[static_cast<size_t>(op)]->Increment(static_cast<double>(bytes));
}

void StepMetrics::OnSkew(double seconds) {
  if (in_step_) skew_seconds_.Observe(seconds);
}

void StepMetrics::OnFailure(CollectiveOp op, CollectiveFailure reason) {
  if (!serving()) return;
  failures_[static_cast<size_t>(op)][static_cast<size_t>(reason)]->Increment();
}

void StepMetrics::OnFetch(double seconds, int64_t) {
  if (serving()) fetch_seconds_.Observe(seconds);
}

}  // namespace phalanx
