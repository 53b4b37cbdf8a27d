#ifndef PHALANX_TESTS_WORKER_SCHEDULER_SHADOW_MEMORY_H_
#define PHALANX_TESTS_WORKER_SCHEDULER_SHADOW_MEMORY_H_

#include <cstdint>
#include <vector>

#include "tests/worker/scheduler/fake_model.h"
#include "worker/scheduler/limits.h"
#include "worker/scheduler/step_plan.h"

namespace phalanx {

// The caches of a rank, as far as a plan can get them wrong: a row of a KV
// block remembers the prefix that it ends, a slot the prefix whose state it
// holds. Runs plans, and complains (as failures of the test) where a sequence
// would read what is not its own.
class ShadowMemory {
 public:
  explicit ShadowMemory(const SchedulerLimits& limits);

  // The prefix at each row of logits, in plan order.
  std::vector<PrefixState> Run(const StepPlan& plan);

 private:
  struct KvRow {
    PrefixState before;
    PrefixState after;
  };

  KvRow& Row(const PlannedSequence& sequence, int64_t position);
  void CheckPast(const PlannedSequence& sequence, const PrefixState& state);
  void CheckWriters(const StepPlan& plan) const;

  const SchedulerLimits limits_;
  std::vector<KvRow> rows_;  // Block after block.
  std::vector<PrefixState> slots_;
};

}  // namespace phalanx

#endif  // PHALANX_TESTS_WORKER_SCHEDULER_SHADOW_MEMORY_H_
