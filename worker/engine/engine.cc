#include "worker/engine/engine.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/log.h"
#include "common/reason.h"
#include "common/status.h"
#include "worker/engine/warm_up.h"

namespace phalanx {
namespace {

// How soon an idle engine sees that its group is lost.
constexpr std::chrono::milliseconds kIdlePoll{50};

absl::Status Send(const StepPlan& plan, Collective& comm) {
  std::string bytes = Encode(plan);
  return comm.Broadcast(bytes);
}

// Weights may hold NaN; who starts the group should know it before a client.
void WarnOfNonFinite(std::span<const float> logits, uint64_t epoch) {
  const auto bad = std::count_if(logits.begin(), logits.end(), [](float logit) {
    return !std::isfinite(logit);
  });
  if (bad > 0)
    LogWarning("engine", "warm-up gave logits that are not finite",
               {{"epoch", epoch}, {"logits", bad}, {"of", logits.size()}});
}

// What clients are told when the group is over. in_step: those whose rows were
// in the step that it did not survive.
absl::Status ClientError(const absl::Status& cause, uint64_t epoch,
                         bool in_step = false) {
  if (cause.ok())
    return ReasonedError(absl::StatusCode::kUnavailable, "DRAINING",
                         "the worker is shutting down");
  Reason reason = ReasonOf(cause);
  if (reason.word == "RANK_DIVERGED") return cause;
  reason.metadata["epoch"] = absl::StrCat(epoch);
  reason.metadata["in_step"] = in_step ? "true" : "false";
  return ReasonedError(absl::StatusCode::kUnavailable, "GROUP_LOST",
                       cause.message(), reason.metadata);
}

}  // namespace

Engine::Engine(const SchedulerLimits& limits, ModelRunner& runner, Inbox& inbox,
               StatusBoard& board, const Clock& clock, StepObserver* observer)
    : limits_(limits),
      runner_(runner),
      inbox_(inbox),
      board_(board),
      clock_(clock),
      observer_(observer != nullptr ? *observer : no_observer_),
      sampler_(limits.vocab_size) {}

void Engine::Stop() {
  stop_.store(true);
  inbox_.Wake();
}

absl::Status Engine::Run(Collective& comm, uint64_t epoch,
                         const PoolSizes& pools) {
  SchedulerLimits limits = limits_;
  limits.kv_blocks = pools.kv_blocks;
  limits.state_slots = pools.state_slots;
  board_.Write([&](WorkerSnapshot& s) {
    s.state = WorkerState::kWarming;
    s.detail = "running its first tokens";
    s.epoch = epoch;
    s.steps = 0;
  });
  absl::Status status = WarmUp(comm, epoch, limits);
  // A key is free again before its client hears of the end.
  Scheduler scheduler(limits, epoch, clock_, [this](const RequestKey& key) {
    inbox_.Ended({&key, 1});
  });
  if (status.ok()) {
    observer_.OnServing();
    inbox_.Open(epoch, limits);
    board_.Write([](WorkerSnapshot& s) {
      s.state = WorkerState::kReady;
      s.detail.clear();
    });
    status = Serve(scheduler, comm);
  }
  observer_.OnEpochEnd();
  board_.Write([&](WorkerSnapshot& s) {
    s.state = status.ok() ? WorkerState::kDraining : WorkerState::kForming;
    s.detail = std::string(status.message());
  });
  const absl::Status end = ClientError(status, epoch);
  inbox_.CloseAndEndAll(end);
  scheduler.CloseAll(end, ClientError(status, epoch, /*in_step=*/true));
  Publish(scheduler);
  return status;
}

absl::Status Engine::WarmUp(Collective& comm, uint64_t epoch,
                            const SchedulerLimits& limits) {
  for (const StepPlan& plan : WarmUpPlans(PlanLimits(limits), epoch)) {
    RETURN_IF_ERROR(Send(plan, comm));
    RETURN_IF_ERROR(runner_.Run(plan, comm));
    RETURN_IF_ERROR(CompareLogits(runner_, comm));
    WarnOfNonFinite(runner_.logits(0), epoch);
    board_.Write([&](WorkerSnapshot& s) {
      s.warmup_logits_hash = runner_.LogitsHash();
    });
  }
  return absl::OkStatus();
}

absl::Status Engine::Serve(Scheduler& scheduler, Collective& comm) {
  while (!stop_.load()) {
    RETURN_IF_ERROR(comm.status());
    TakeArrivals(scheduler);
    const StepPlan plan = scheduler.Plan();
    if (plan.sequences.empty()) {
      Publish(scheduler);
      inbox_.WaitForWork(kIdlePoll);
      continue;
    }
    RETURN_IF_ERROR(RunStep(scheduler, plan, comm));
    Publish(scheduler);
  }
  StepPlan last;
  last.kind = StepKind::kStop;
  last.epoch = board_.Read().epoch;
  return Send(last, comm);
}

absl::Status Engine::RunStep(Scheduler& scheduler, const StepPlan& plan,
                             Collective& comm) {
  observer_.OnStepBegin();
  RETURN_IF_ERROR(Send(plan, comm));
  RETURN_IF_ERROR(runner_.Run(plan, comm));
  // One for each row of logits; several of a prompt whose log-probabilities are
  // asked for.
  const std::span<const SampleSpec> specs = scheduler.samples();
  CHECK(static_cast<int64_t>(specs.size()) == plan.logits_count());
  std::vector<absl::StatusOr<Token>> sampled;
  sampled.reserve(specs.size());
  for (const SampleSpec& spec : specs) {
    const int64_t row = static_cast<int64_t>(sampled.size());
    sampled.push_back(sampler_.Sample(runner_.logits(row), spec));
  }
  scheduler.Commit(plan, std::move(sampled));
  observer_.OnStepEnd(plan);
  return absl::OkStatus();
}

void Engine::TakeArrivals(Scheduler& scheduler) {
  Arrivals arrivals = inbox_.Drain();
  for (Submission& submission : arrivals.submissions) {
    const RequestKey key{submission.request.id,
                         submission.request.sampling.choice_index};
    const absl::Status status =
        scheduler.Submit(std::move(submission.request), submission.sink);
    if (status.ok()) continue;
    inbox_.Ended({&key, 1});
    submission.sink->Close(status);
  }
  for (const std::string& id : arrivals.cancelled_ids) scheduler.Cancel(id);
}

void Engine::Publish(const Scheduler& scheduler) {
  const SchedulerCounts counts = scheduler.counts();
  board_.Write([&](WorkerSnapshot& s) {
    s.counts = counts;
    s.steps = counts.steps;
  });
}

}  // namespace phalanx
