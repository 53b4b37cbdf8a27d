#ifndef PHALANX_WORKER_METRICS_STEP_METRICS_H_
#define PHALANX_WORKER_METRICS_STEP_METRICS_H_

#include <array>
#include <atomic>
#include <string>

#include "common/clock.h"
#include "common/metrics/metric_registry.h"
#include "worker/collective/collective_observer.h"
#include "worker/engine/step_observer.h"
#include "worker/experts/expert_cache.h"

namespace phalanx {

// Counts what happens in service: steps, the collective's calls in them, and
// fetches of experts. What comes before a group is ready, or between steps,
// counts for nothing; failures count from ready on.
//
// A follower's broadcast is outside its steps, since it waits there for as long
// as the group is idle: on ranks above 0 that series stays 0.
//
// Made by main, outlives engine, collectives and expert cache. The observers'
// methods are the engine thread's, but for OnFetch and serving: any thread.
class StepMetrics final : public StepObserver,
                          public CollectiveObserver,
                          public FetchObserver {
 public:
  StepMetrics(const std::string& transport, const Clock& clock,
              MetricRegistry& registry);

  void OnWarmUp(const StepPlan&) override { Pause(); }
  void OnServing() override;
  void OnStepBegin(const StepPlan& plan) override;
  void OnStepEnd(const StepPlan& plan) override;
  void OnEpochEnd() override { Pause(); }
  void OnCall(CollectiveOp op, double seconds, int64_t bytes) override;
  void OnSkew(double seconds) override;
  void OnFailure(CollectiveOp op, CollectiveFailure reason) override;
  void OnFetch(double seconds, int64_t bytes) override;

  bool serving() const { return serving_.load(); }

 private:
  enum Phase { kPrefill, kDecode, kMixed, kPhases };
  static Phase PhaseOf(const StepPlan& plan);
  void Pause();

  const Clock& clock_;
  std::atomic<bool> serving_{false};
  bool in_step_ = false;
  double step_began_seconds_ = 0;
  std::array<prometheus::Histogram*, kPhases> step_seconds_;
  std::array<prometheus::Histogram*, kPhases> step_tokens_;
  std::array<prometheus::Histogram*, kCollectiveOps> call_seconds_;
  std::array<prometheus::Counter*, kCollectiveOps> call_bytes_;
  std::array<std::array<prometheus::Counter*, kCollectiveFailures>,
             kCollectiveOps>
      failures_;
  prometheus::Histogram& skew_seconds_;
  prometheus::Histogram& fetch_seconds_;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_METRICS_STEP_METRICS_H_
