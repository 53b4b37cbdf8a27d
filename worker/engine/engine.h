#ifndef PHALANX_WORKER_ENGINE_ENGINE_H_
#define PHALANX_WORKER_ENGINE_ENGINE_H_

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "common/clock.h"
#include "worker/collective/collective.h"
#include "worker/engine/model_runner.h"
#include "worker/engine/sampler.h"
#include "worker/engine/status_board.h"
#include "worker/engine/step_observer.h"
#include "worker/scheduler/inbox.h"
#include "worker/scheduler/limits.h"
#include "worker/scheduler/scheduler.h"

namespace phalanx {

// Capacities that a group agreed on: the smallest of its ranks'.
struct PoolSizes {
  int64_t kv_blocks = 0;
  int64_t state_slots = 0;
};

// The loop on rank 0: take requests, plan, broadcast, run, sample, deliver.
// Owns the scheduler of an epoch; everything else is lent and outlives it. Run
// is called by one thread, the engine thread.
class Engine {
 public:
  // `observer` is lent too; null: nobody looks.
  Engine(const SchedulerLimits& limits, ModelRunner& runner, Inbox& inbox,
         StatusBoard& board, const Clock& clock,
         StepObserver* observer = nullptr);

  // Serves one epoch: warm-up, then steps until Stop or an error. `pools` are
  // the blocks and slots that every rank of this group has. On return every
  // sink has its end. OK after Stop; else why the group is over: a lost rank
  // (UNAVAILABLE/GROUP_LOST), a diverged one or a device error.
  absl::Status Run(Collective& comm, uint64_t epoch, const PoolSizes& pools);

  // Makes Run end before its next step. Any thread.
  void Stop();

  // Refuses new requests with UNAVAILABLE/DRAINING from before the next step
  // on, and makes Run end, as by Stop, once none is active. Any thread.
  void Drain();

 private:
  absl::Status WarmUp(Collective& comm, uint64_t epoch,
                      const SchedulerLimits& limits);
  absl::Status Serve(Scheduler& scheduler, Collective& comm);
  bool MustEnd();
  absl::Status RunStep(Scheduler& scheduler, const StepPlan& plan,
                       Collective& comm);
  void TakeArrivals(Scheduler& scheduler);
  void Publish(const Scheduler& scheduler);

  const SchedulerLimits limits_;
  ModelRunner& runner_;
  Inbox& inbox_;
  StatusBoard& board_;
  const Clock& clock_;
  StepObserver no_observer_;
  StepObserver& observer_;
  Sampler sampler_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> drain_{false};
  bool closed_to_drain_ = false;  // In this epoch. The engine thread's.
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_ENGINE_ENGINE_H_
