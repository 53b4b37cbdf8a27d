#include "tests/support/generate.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "common/clock.h"
#include "common/status.h"
#include "tests/support/token_recorder.h"
#include "worker/engine/sampler.h"
#include "worker/scheduler/scheduler.h"

namespace phalanx {
namespace {

absl::Status RunAll(TpGroup& group, Scheduler& scheduler, Sampler& sampler) {
  while (true) {
    const StepPlan plan = scheduler.Plan();
    if (plan.sequences.empty()) return absl::OkStatus();
    ASSIGN_OR_RETURN(const LogitRows rows, group.Run(plan));
    std::vector<absl::StatusOr<Token>> sampled;
    for (const SampleSpec& spec : scheduler.samples())
      sampled.push_back(sampler.Sample(rows[sampled.size()], spec));
    scheduler.Commit(plan, std::move(sampled));
  }
}

}  // namespace

SchedulerLimits LimitsFor(const TpGroup& group, int64_t running,
                          int64_t prefill_chunk) {
  const StepPlanLimits& plan = group.limits();
  return {.max_running = running,
          .max_waiting = 64,
          .max_model_len = plan.max_model_len,
          .prefill_chunk = prefill_chunk,
          .step_tokens = plan.max_tokens,
          .kv_blocks = plan.kv_blocks,
          .state_slots = plan.state_slots,
          .vocab_size = plan.vocab_size,
          .logit_rows = std::max(plan.max_logit_rows, running)};
}

absl::StatusOr<std::vector<std::vector<Token>>> Generate(
    TpGroup& group, const SchedulerLimits& limits,
    std::vector<Request> requests) {
  RETURN_IF_ERROR(ValidateLimits(limits));
  const ManualClock clock;
  std::vector<std::unique_ptr<TokenRecorder>> sinks;
  Scheduler scheduler(limits, /*epoch=*/0, clock);
  Sampler sampler(limits.vocab_size);
  absl::Status status;
  for (Request& request : requests) {
    sinks.push_back(std::make_unique<TokenRecorder>());
    status = scheduler.Submit(std::move(request), sinks.back().get());
    if (!status.ok()) break;
  }
  if (status.ok()) status = RunAll(group, scheduler, sampler);
  scheduler.CloseAll(absl::CancelledError("the test is over"));
  RETURN_IF_ERROR(status);
  std::vector<std::vector<Token>> answers;
  for (const auto& sink : sinks) {
    TokenRecorder::Result result = sink->Wait();
    RETURN_IF_ERROR(result.error);
    answers.push_back(std::move(result.tokens));
  }
  return answers;
}

}  // namespace phalanx
