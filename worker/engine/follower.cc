#include "worker/engine/follower.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/reason.h"
#include "common/status.h"
#include "worker/engine/warm_up.h"

namespace phalanx {
namespace {

absl::StatusOr<StepPlan> Receive(Collective& comm,
                                 const StepPlanLimits& limits) {
  std::string message;
  RETURN_IF_ERROR(comm.Broadcast(message));
  return Decode(message, limits);
}

absl::Status Astray(const StepPlan& plan, uint64_t epoch) {
  return ReasonedError(
      absl::StatusCode::kInternal, "RANK_DIVERGED",
      absl::StrCat("a plan of epoch ", plan.epoch, " came in epoch ", epoch));
}

}  // namespace

absl::Status Follower::Run(Collective& comm, uint64_t epoch) {
  board_.Write([&](WorkerSnapshot& s) {
    s.state = WorkerState::kWarming;
    s.detail = "running its first tokens";
    s.epoch = epoch;
    s.steps = 0;
  });
  const absl::Status status = Follow(comm, epoch);
  observer_.OnEpochEnd();
  // The others must not wait for a rank that left.
  if (!status.ok()) comm.Abort(status);
  board_.Write([&](WorkerSnapshot& s) {
    s.state = WorkerState::kForming;
    s.detail = status.ok() ? "rank 0 stopped" : std::string(status.message());
  });
  return status;
}

absl::Status Follower::Follow(Collective& comm, uint64_t epoch) {
  while (true) {
    ASSIGN_OR_RETURN(const StepPlan plan, Receive(comm, runner_.limits()));
    if (plan.epoch != epoch) return Astray(plan, epoch);
    if (plan.kind == StepKind::kStop) return absl::OkStatus();
    const bool warm_up = plan.kind == StepKind::kWarmUp;
    if (warm_up)
      observer_.OnWarmUp(plan);
    else
      observer_.OnStepBegin(plan);
    RETURN_IF_ERROR(runner_.Run(plan, comm));
    if (warm_up) RETURN_IF_ERROR(CompareLogits(runner_, comm));
    if (warm_up)
      observer_.OnServing();
    else
      observer_.OnStepEnd(plan);
    board_.Write([&](WorkerSnapshot& s) {
      if (plan.kind == StepKind::kRun) {
        s.steps = plan.step;
        return;
      }
      s.warmup_logits_hash = runner_.LogitsHash();
      s.state = WorkerState::kReady;  // The group is, once rank 0 is too.
      s.detail.clear();
    });
  }
}

}  // namespace phalanx
