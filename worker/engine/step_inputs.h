#ifndef PHALANX_WORKER_ENGINE_STEP_INPUTS_H_
#define PHALANX_WORKER_ENGINE_STEP_INPUTS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "worker/model/step.h"
#include "worker/scheduler/step_plan.h"

namespace phalanx {

// Turns a plan into the device-side inputs of a forward pass. Holds the memory
// of the largest step; the engine thread's.
class StepInputs {
 public:
  static absl::StatusOr<std::unique_ptr<StepInputs>> Create(
      Backend& backend, const StepPlanLimits& limits);

  // What Create allocates on the device, and Load as much on the host.
  static int64_t Bytes(const StepPlanLimits& limits);

  // Uploads the plan, which obeys the limits. The views are valid until the
  // next call.
  Step Load(const StepPlan& plan);

 private:
  StepInputs(Backend& backend, Buffer memory)
      : backend_(backend), memory_(std::move(memory)) {}

  Backend& backend_;
  Buffer memory_;
  std::vector<int32_t> host_;  // All inputs of a step, one after another.
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_ENGINE_STEP_INPUTS_H_
