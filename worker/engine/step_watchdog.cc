#include "worker/engine/step_watchdog.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/reason.h"

namespace phalanx {
namespace {

// Looks in the time of a decode step: a late step is told at most an eighth of
// that time too late.
constexpr int kLooksPerStep = 8;

}  // namespace

StepWatchdog::StepWatchdog(const StepWatchdogConfig& config, const Clock& clock,
                           StepObserver& next, Told late, Told hopeless)
    : config_(config),
      clock_(clock),
      next_(next),
      late_(std::move(late)),
      hopeless_(std::move(hopeless)) {}

std::chrono::milliseconds StepWatchdog::tick() const {
  return std::chrono::milliseconds(std::max<int64_t>(
      1, static_cast<int64_t>(1000 * config_.step_seconds / kLooksPerStep)));
}

void StepWatchdog::Tick() {
  Stage reached = Stage::kNone;
  double age = 0;
  int64_t rows = 0;
  {
    MutexLock lock(mutex_);
    age = clock_.now_seconds() - began_seconds_;
    rows = rows_;
    if (stage_ == Stage::kInTime && age >= limit_seconds_)
      reached = stage_ = Stage::kLate;
    else if (stage_ == Stage::kLate && age >= 2 * limit_seconds_)
      reached = stage_ = Stage::kHopeless;
  }
  if (reached == Stage::kLate) late_(age, rows);
  if (reached == Stage::kHopeless) hopeless_(age, rows);
}

double StepWatchdog::step_age_seconds() const {
  MutexLock lock(mutex_);
  return stage_ == Stage::kNone ? 0 : clock_.now_seconds() - began_seconds_;
}

void StepWatchdog::OnWarmUp(const StepPlan& plan) {
  next_.OnWarmUp(plan);
  Begin(plan);
}

void StepWatchdog::OnServing() {
  End();
  next_.OnServing();
}

void StepWatchdog::OnStepBegin(const StepPlan& plan) {
  next_.OnStepBegin(plan);
  Begin(plan);
}

void StepWatchdog::OnStepEnd(const StepPlan& plan) {
  End();
  next_.OnStepEnd(plan);
}

void StepWatchdog::OnEpochEnd() {
  End();
  next_.OnEpochEnd();
}

void StepWatchdog::Begin(const StepPlan& plan) {
  const int64_t rows = plan.token_count();
  const double share =
      static_cast<double>(rows) / static_cast<double>(config_.max_running);
  const double now = clock_.now_seconds();
  MutexLock lock(mutex_);
  stage_ = Stage::kInTime;
  rows_ = rows;
  began_seconds_ = now;
  limit_seconds_ = config_.step_seconds * std::max(1.0, share);
}

void StepWatchdog::End() {
  MutexLock lock(mutex_);
  stage_ = Stage::kNone;
}

absl::Status LateStep(const Collective& group, double seconds) {
  const int awaited = group.awaited_rank();
  const int rank = awaited >= 0 ? awaited : group.rank();
  return ReasonedError(
      absl::StatusCode::kUnavailable, "GROUP_LOST",
      absl::StrFormat("a step lasts %.1f s by now; rank %d has not done its "
                      "part",
                      seconds, rank),
      {{"rank", absl::StrCat(rank)}, {"cause", "step watchdog"}});
}

}  // namespace phalanx
