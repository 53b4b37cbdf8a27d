#ifndef PHALANX_WORKER_SCHEDULER_PLAN_BUILDER_H_
#define PHALANX_WORKER_SCHEDULER_PLAN_BUILDER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "worker/scheduler/cache_account.h"
#include "worker/scheduler/limits.h"
#include "worker/scheduler/request.h"
#include "worker/scheduler/sequence.h"
#include "worker/scheduler/step_plan.h"

namespace phalanx {

// A plan in the making, and what its commit needs to know.
struct PlanDraft {
  StepPlan plan;
  std::vector<Sequence*> sequences;  // Of plan.sequences, in that order.
  std::vector<SampleSpec> samples;   // Of the rows of logits, in that order.
  // Rows of prompts were left undone for want of budget.
  bool full = false;
};

// Puts rows into a draft, within the limits of a step: step_tokens rows, of
// these prefill_chunk of prompts, PlanLimits' max_logit_rows rows of logits.
// Lives as long as the making of one plan.
class PlanBuilder {
 public:
  PlanBuilder(const SchedulerLimits& limits, CacheAccount& caches,
              PlanDraft& draft);

  // The next row of a sequence whose block for it is there.
  void Decode(Sequence& sequence);

  // After all Decodes: chunks of these sequences, which are in order of
  // admission. The first gets at least half of the rows that prompts may have,
  // so that the oldest always moves; the others get the rest, those with least
  // left to do first, so that short prompts pass a huge one; what is left after
  // that goes to the first again. A chunk ends at an anchor.
  void Prefill(std::span<Sequence* const> sequences);

 private:
  int64_t MostRows(const Sequence& sequence, int64_t more_logits) const;
  int64_t LogitRows(const Sequence& sequence, int64_t rows) const;
  void AddRows(Sequence& sequence, int64_t rows);
  void AddSamples(const Sequence& sequence, int64_t end, int64_t count);

  const SchedulerLimits& limits_;
  CacheAccount& caches_;
  PlanDraft& draft_;
  int64_t rows_ = 0;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_SCHEDULER_PLAN_BUILDER_H_
