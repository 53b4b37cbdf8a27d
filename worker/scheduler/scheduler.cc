#include "worker/scheduler/scheduler.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "common/check.h"
#include "common/reason.h"
#include "common/status.h"
#include "worker/scheduler/anchors.h"
#include "worker/scheduler/end_status.h"

namespace phalanx {
namespace {

int PriorityOf(const Request& request) {
  return request.priority == 0 ? kNormalPriority : request.priority;
}

// A sequence that has not begun.
SequencePtr MakeSequence(Request request, const SchedulerLimits& limits) {
  auto sequence = std::make_unique<Sequence>();
  sequence->priority = PriorityOf(request);
  sequence->prompt_tokens = static_cast<int64_t>(request.prompt_ids.size());
  sequence->max_total_tokens = MaxTotalTokens(request, limits);
  if (request.prompt_logprobs && request.emitted_ids.empty())
    sequence->rows_to_score = sequence->prompt_tokens - 1;
  sequence->tokens = std::exchange(request.prompt_ids, {});
  const std::vector<int32_t> emitted = std::exchange(request.emitted_ids, {});
  sequence->tokens.insert(sequence->tokens.end(), emitted.begin(),
                          emitted.end());
  request.anchors = ThinOut(request.anchors, sequence->prompt_tokens);
  if (request.suspect) sequence->trial = Trial::kUntried;
  sequence->request = std::move(request);
  return sequence;
}

}  // namespace

Scheduler::Scheduler(const SchedulerLimits& limits, uint64_t epoch,
                     const Clock& clock, EndedCallback on_ended)
    : limits_(limits),
      epoch_(epoch),
      clock_(clock),
      on_ended_(std::move(on_ended)),
      caches_(limits) {
  CHECK(ValidateLimits(limits).ok());
  running_.reserve(limits.max_running);
}

Scheduler::~Scheduler() { CHECK(running_.empty() && waiting_.empty()); }

absl::Status Scheduler::Submit(Request request, TokenSink* sink) {
  CHECK(sink != nullptr);
  RETURN_IF_ERROR(ValidateRequest(request, limits_));
  const int64_t limit = limits_.max_running + limits_.max_waiting;
  if (const int64_t active = waiting_.size() + running(); active >= limit)
    return QueueIsFull(active, limit);
  if (request.emitted_ids.empty())
    RETURN_IF_ERROR(CheckTimeout(request, PriorityOf(request)));

  SequencePtr sequence = MakeSequence(std::move(request), limits_);
  sequence->sink = sink;
  sequence->submitted_seconds = clock_.now_seconds();
  sequence->arrival = ++arrivals_;
  if (const auto reason = FinishOf(*sequence); reason.has_value()) {
    FinishSequence(*sequence, *reason);
    return absl::OkStatus();
  }
  sequence->share = shares_.Enter(sequence->request.key);
  const double now = sequence->submitted_seconds;
  waiting_.Push(std::move(sequence), now);
  return absl::OkStatus();
}

// Prompts that come first, at the pace of the last steps. What they will make
// is not counted, nor the wait for their memory: it may well be longer.
absl::Status Scheduler::CheckTimeout(const Request& request,
                                     int priority) const {
  const std::optional<double> rate = rate_.tokens_per_second();
  if (std::isinf(request.timeout_seconds) || !rate.has_value() ||
      waiting_.empty())
    return absl::OkStatus();
  int64_t tokens = 0;
  for (const SequencePtr& other : running_)
    if (!other->paused()) tokens += other->pending();
  for (const SequencePtr& other : waiting_.all())
    if (!other->paused() && other->priority >= priority)
      tokens += other->pending();
  const double estimate = static_cast<double>(tokens) / *rate;
  if (estimate <= request.timeout_seconds) return absl::OkStatus();
  return TimeoutTooShort(request.timeout_seconds, estimate);
}

bool Scheduler::Cancel(absl::string_view request_id) {
  bool found = false;
  const auto mark = [&](const SequencePtr& sequence) {
    if (sequence->request.id != request_id) return;
    sequence->cancel_asked = true;
    found = true;
  };
  std::for_each(waiting_.all().begin(), waiting_.all().end(), mark);
  std::for_each(running_.begin(), running_.end(), mark);
  return found;
}

StepPlan Scheduler::Plan() {
  CHECK(!plan_outstanding_);
  now_ = clock_.now_seconds();
  hit_tokens_ = 0;
  draft_ = {};
  draft_.plan.epoch = epoch_;
  draft_.plan.step = steps_ + 1;
  EndAndPark();
  NextTrial();
  const bool trial_known = trial_ != nullptr && trial_->sink->trial_known();
  if (!trial_known || !AdmitTrial()) {
    ExtendDecoding();
    if (!trial_known) Admit();
  }
  AddRows();
  CHECK(draft_.plan.state_restores.empty() || !draft_.plan.sequences.empty());
  if (!draft_.plan.sequences.empty()) {
    ++steps_;
    plan_outstanding_ = true;
  }
  return std::exchange(draft_.plan, {});
}

// Rows for all that run; or for the suspect alone, from its admission to its
// first token.
void Scheduler::AddRows() {
  PlanBuilder builder(limits_, caches_, draft_);
  if (trial_ != nullptr && trial_->running()) {
    builder.Prefill({&trial_, 1});
    return;
  }
  std::vector<Sequence*> prompts;
  for (const SequencePtr& sequence : running_) {
    if (sequence->paused()) continue;
    if (sequence->decoding)
      builder.Decode(*sequence);
    else
      prompts.push_back(sequence.get());
  }
  builder.Prefill(prompts);
}

void Scheduler::Commit(const StepPlan& plan,
                       std::vector<absl::StatusOr<Token>> sampled) {
  CHECK(plan_outstanding_ && plan.epoch == epoch_ && plan.step == steps_);
  CHECK(plan.sequences.size() == draft_.sequences.size());
  CHECK(sampled.size() == draft_.samples.size());
  plan_outstanding_ = false;
  if (draft_.full)
    rate_.Add(plan.token_count() + hit_tokens_, clock_.now_seconds() - now_);
  std::span<absl::StatusOr<Token>> rest = sampled;
  for (size_t i = 0; i < plan.sequences.size(); ++i) {
    const PlannedSequence& planned = plan.sequences[i];
    Sequence& sequence = *draft_.sequences[i];
    CHECK(sequence.state_slot == planned.state_slot &&
          sequence.past == planned.past);
    CommitRows(sequence, static_cast<int64_t>(planned.token_ids.size()),
               rest.first(planned.logit_rows));
    rest = rest.subspan(planned.logit_rows);
  }
  draft_.samples.clear();
  draft_.sequences.clear();
  ForgetEnded();
}

void Scheduler::CommitRows(Sequence& sequence, int64_t rows,
                           std::span<absl::StatusOr<Token>> sampled) {
  sequence.in_plan = false;
  sequence.past += rows;
  for (const absl::StatusOr<Token>& token : sampled) {
    if (token.ok()) continue;
    if (ReasonOf(token.status()).word == "NON_FINITE_LOGITS") {
      caches_.Discard(sequence);
      caches_.DropSnapshots(sequence);
    }
    return CloseSequence(sequence, token.status());
  }
  caches_.Keep(sequence);
  const int64_t scored =
      std::min<int64_t>(sequence.rows_to_score - sequence.rows_scored,
                        static_cast<int64_t>(sampled.size()));
  if (scored > 0) {
    std::vector<Token> prompt;
    for (absl::StatusOr<Token>& token : sampled.first(scored))
      prompt.push_back(*std::move(token));
    sequence.rows_scored += scored;
    sequence.sink->PushPrompt(std::move(prompt));
  }
  if (static_cast<int64_t>(sampled.size()) > scored)
    CommitToken(sequence, *std::move(sampled.back()));
  else if (const auto reason = FinishOf(sequence); reason.has_value())
    FinishSequence(sequence, *reason);
}

void Scheduler::CommitToken(Sequence& sequence, Token token) {
  CHECK(token.id >= 0 && token.id < limits_.vocab_size);
  sequence.tokens.push_back(token.id);
  sequence.decoding = true;
  shares_.Charge(*sequence.share, 1);
  if (trial_ == &sequence) {
    sequence.trial = Trial::kPassed;
    trial_ = nullptr;
  }
  std::vector<Token> batch;
  batch.push_back(std::move(token));
  sequence.sink->Push(std::move(batch));
  if (const auto reason = FinishOf(sequence); reason.has_value())
    FinishSequence(sequence, *reason);
}

void Scheduler::CloseAll(const absl::Status& error,
                         const absl::Status& in_step_error) {
  CHECK(!error.ok() && !in_step_error.ok());
  plan_outstanding_ = false;
  draft_ = {};
  for (const SequencePtr& sequence : running_)
    CloseSequence(*sequence, sequence->in_plan ? in_step_error : error);
  for (const SequencePtr& sequence : waiting_.all())
    CloseSequence(*sequence, error);
  ForgetEnded();
}

std::vector<RequestKey> Scheduler::TakeEnded() {
  return std::exchange(ended_, {});
}

SchedulerCounts Scheduler::counts() const {
  SchedulerCounts counts = totals_;
  const PrefixCache::Counts caches = caches_.counts();
  counts.running = running();
  counts.waiting = waiting_.size();
  counts.kv_blocks_used = caches.blocks_live;
  counts.kv_blocks_reusable = caches.blocks_reusable;
  counts.kv_blocks_total = limits_.kv_blocks;
  counts.state_slots_used = caches.slots_live;
  counts.state_slots_snapshot = caches.slots_snapshot;
  counts.state_slots_total = limits_.state_slots;
  counts.steps = plan_outstanding_ ? steps_ - 1 : steps_;
  const double now = clock_.now_seconds();
  for (const SequencePtr& sequence : waiting_.all())
    counts.oldest_wait_seconds =
        std::max(counts.oldest_wait_seconds, sequence->waited(now));
  return counts;
}

}  // namespace phalanx
