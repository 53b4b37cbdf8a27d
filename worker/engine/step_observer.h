#ifndef PHALANX_WORKER_ENGINE_STEP_OBSERVER_H_
#define PHALANX_WORKER_ENGINE_STEP_OBSERVER_H_

#include "worker/scheduler/step_plan.h"

namespace phalanx {

// Sees an epoch's steps from the engine thread of any rank: for metrics, of
// which the engine knows nothing. Calls must be short.
class StepObserver {
 public:
  virtual ~StepObserver() = default;

  // A plan of warm-up begins: nothing counts until OnServing.
  virtual void OnWarmUp(const StepPlan&) {}
  // The rank has done its warm-up: what happens from here on is service. A
  // follower, which does not know the last plan of warm-up, says so after each.
  virtual void OnServing() {}
  // A step for requests begins: on rank 0 before its plan is sent, on others
  // when it has come.
  virtual void OnStepBegin(const StepPlan&) {}
  // It is over and was whole: on rank 0 its tokens are delivered.
  virtual void OnStepEnd(const StepPlan&) {}
  // The epoch is over, maybe in mid-step.
  virtual void OnEpochEnd() {}
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_ENGINE_STEP_OBSERVER_H_
