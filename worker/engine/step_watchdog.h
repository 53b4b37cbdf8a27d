#ifndef PHALANX_WORKER_ENGINE_STEP_WATCHDOG_H_
#define PHALANX_WORKER_ENGINE_STEP_WATCHDOG_H_

#include <chrono>
#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "worker/collective/collective.h"
#include "worker/engine/step_observer.h"

namespace phalanx {

struct StepWatchdogConfig {
  // What a step of up to max_running rows, a decode step, may take. One with
  // more rows may take as many times longer as it has more.
  double step_seconds = 10;
  int64_t max_running = 1;
};

// Sees steps that do not end. A step that is late is told to `late`, which is
// to abort the group: that frees an engine thread that waits for another rank.
// If the step has not ended after the same time again, the thread hangs in its
// own work, and `hopeless` is told, which is to end the process.
//
// An idle rank, or one that waits for a group, is in no step and never late.
//
// Made by main between the engine (or follower) and the observer that it would
// have had: every call is passed on. Methods of StepObserver are the engine
// thread's; the others any thread's.
class StepWatchdog final : public StepObserver {
 public:
  // Gets how long the step has lasted, and how many rows it has.
  using Told = std::function<void(double seconds, int64_t rows)>;

  // All are lent and outlive this.
  StepWatchdog(const StepWatchdogConfig& config, const Clock& clock,
               StepObserver& next, Told late, Told hopeless);

  // Looks at the clock: call every tick(), on another thread than the engine's.
  void Tick();
  std::chrono::milliseconds tick() const;

  // How long the step that runs has lasted; 0 if none does.
  double step_age_seconds() const;

  void OnWarmUp(const StepPlan& plan) override;
  void OnServing() override;
  void OnStepBegin(const StepPlan& plan) override;
  void OnStepEnd(const StepPlan& plan) override;
  void OnEpochEnd() override;

 private:
  // Of the step that runs.
  enum class Stage { kNone, kInTime, kLate, kHopeless };

  void Begin(const StepPlan& plan);
  void End();

  const StepWatchdogConfig config_;
  const Clock& clock_;
  StepObserver& next_;
  const Told late_;
  const Told hopeless_;

  mutable Mutex mutex_;
  Stage stage_ ABSL_GUARDED_BY(mutex_) = Stage::kNone;
  int64_t rows_ ABSL_GUARDED_BY(mutex_) = 0;
  double began_seconds_ ABSL_GUARDED_BY(mutex_) = 0;
  double limit_seconds_ ABSL_GUARDED_BY(mutex_) = 0;
};

// GROUP_LOST of a step that is late: the rank that `group` waits for, or its
// own if it waits for nobody and so hangs itself.
absl::Status LateStep(const Collective& group, double seconds);

}  // namespace phalanx

#endif  // PHALANX_WORKER_ENGINE_STEP_WATCHDOG_H_
