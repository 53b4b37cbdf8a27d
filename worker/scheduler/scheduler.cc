#include "worker/scheduler/scheduler.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/reason.h"
#include "common/status.h"
#include "common/units.h"

namespace phalanx {
namespace {

int QueueOf(const Request& request) {
  return request.priority == 0 ? kNormalPriority : request.priority;
}

absl::Status ClientCancelled() {
  return ReasonedError(absl::StatusCode::kCancelled, "CLIENT",
                       "cancelled by the client");
}

}  // namespace

Scheduler::Scheduler(const SchedulerLimits& limits, uint64_t epoch,
                     const Clock& clock, EndedCallback on_ended)
    : limits_(limits),
      epoch_(epoch),
      clock_(clock),
      on_ended_(std::move(on_ended)),
      blocks_(limits.kv_blocks),
      slots_(limits.state_slots),
      by_slot_(limits.state_slots, nullptr) {
  CHECK(ValidateLimits(limits).ok());
  running_.reserve(limits.max_running);
  samples_.reserve(limits.max_running);
}

Scheduler::~Scheduler() { CHECK(running_.empty() && waiting() == 0); }

absl::Status Scheduler::Submit(Request request, TokenSink* sink) {
  CHECK(sink != nullptr);
  RETURN_IF_ERROR(ValidateRequest(request, limits_));
  const int64_t active = waiting() + static_cast<int64_t>(running_.size());
  if (const int64_t limit = limits_.max_running + limits_.max_waiting;
      active >= limit)
    return ReasonedError(
        absl::StatusCode::kResourceExhausted, "QUEUE_FULL",
        absl::StrCat(active, " sequences are active; at most ", limit),
        {{"limit", absl::StrCat(limit)}});

  auto sequence = std::make_unique<Sequence>();
  sequence->sink = sink;
  sequence->submitted_seconds = clock_.now_seconds();
  sequence->prompt_tokens = static_cast<int64_t>(request.prompt_ids.size());
  sequence->max_total_tokens = MaxTotalTokens(request, limits_);
  sequence->tokens = std::exchange(request.prompt_ids, {});
  const std::vector<int32_t> emitted = std::exchange(request.emitted_ids, {});
  sequence->tokens.insert(sequence->tokens.end(), emitted.begin(),
                          emitted.end());
  sequence->request = std::move(request);

  if (const auto reason = FinishOf(*sequence); reason.has_value()) {
    FinishSequence(*sequence, *reason);
    return absl::OkStatus();
  }
  waiting_[QueueOf(sequence->request)].push_back(std::move(sequence));
  return absl::OkStatus();
}

bool Scheduler::Cancel(absl::string_view request_id) {
  bool found = false;
  const auto mark = [&](const SequencePtr& sequence) {
    if (sequence->request.id != request_id) return;
    sequence->cancel_asked = true;
    found = true;
  };
  for (const auto& queue : waiting_)
    std::for_each(queue.begin(), queue.end(), mark);
  std::for_each(running_.begin(), running_.end(), mark);
  return found;
}

StepPlan Scheduler::Plan() {
  CHECK(!plan_outstanding_);
  samples_.clear();
  DropCancelled();
  Admit();

  StepPlan plan{.kind = StepKind::kRun,
                .epoch = epoch_,
                .step = steps_ + 1,
                .sequences = {}};
  int64_t budget_rows = limits_.step_tokens;
  for (const SequencePtr& sequence : running_) {
    if (sequence->pending() != 1) continue;
    AddRows(*sequence, 1, plan);
    --budget_rows;
  }
  for (const SequencePtr& sequence : running_) {
    if (sequence->pending() == 1) continue;
    const int64_t rows =
        std::min({sequence->pending(), limits_.prefill_chunk, budget_rows});
    if (rows == 0) break;
    AddRows(*sequence, rows, plan);
    budget_rows -= rows;
  }
  if (plan.sequences.empty()) return plan;
  ++steps_;
  plan_outstanding_ = true;
  return plan;
}

void Scheduler::Commit(const StepPlan& plan,
                       std::vector<absl::StatusOr<Token>> sampled) {
  CHECK(plan_outstanding_ && plan.epoch == epoch_ && plan.step == steps_);
  CHECK(sampled.size() == samples_.size());
  plan_outstanding_ = false;
  auto next_sampled = sampled.begin();
  for (const PlannedSequence& planned : plan.sequences) {
    Sequence* sequence = by_slot_[planned.state_slot];
    CHECK(sequence != nullptr && sequence->past == planned.past);
    sequence->past += static_cast<int64_t>(planned.token_ids.size());
    if (planned.logit_rows > 0)
      CommitToken(*sequence, *std::move(next_sampled++));
  }
  samples_.clear();
  ForgetEnded();
}

void Scheduler::CloseAll(const absl::Status& error) {
  CHECK(!error.ok());
  plan_outstanding_ = false;
  samples_.clear();
  for (const SequencePtr& sequence : running_) CloseSequence(*sequence, error);
  running_.clear();
  for (auto& queue : waiting_) {
    for (const SequencePtr& sequence : queue) CloseSequence(*sequence, error);
    queue.clear();
  }
}

std::vector<RequestKey> Scheduler::TakeEnded() {
  return std::exchange(ended_, {});
}

SchedulerCounts Scheduler::counts() const {
  return {.running = static_cast<int64_t>(running_.size()),
          .waiting = waiting(),
          .kv_blocks_used = blocks_.used_count(),
          .kv_blocks_total = blocks_.capacity(),
          .state_slots_used = slots_.used_count(),
          .state_slots_total = slots_.capacity(),
          .steps = plan_outstanding_ ? steps_ - 1 : steps_};
}

void Scheduler::DropCancelled() {
  const auto cancelled = [](const Sequence& sequence) {
    return sequence.cancel_asked || sequence.sink->cancelled();
  };
  for (const SequencePtr& sequence : running_) {
    if (cancelled(*sequence)) CloseSequence(*sequence, ClientCancelled());
  }
  ForgetEnded();
  for (auto& queue : waiting_) {
    std::erase_if(queue, [&](const SequencePtr& sequence) {
      if (!cancelled(*sequence)) return false;
      CloseSequence(*sequence, ClientCancelled());
      return true;
    });
  }
}

void Scheduler::Admit() {
  for (auto queue = waiting_.rbegin(); queue != waiting_.rend(); ++queue) {
    while (!queue->empty()) {
      if (!TryAdmit(queue->front())) return;
      queue->pop_front();
    }
  }
}

// Moves from `sequence` if there is room.
bool Scheduler::TryAdmit(SequencePtr& sequence) {
  if (static_cast<int64_t>(running_.size()) >= limits_.max_running ||
      slots_.free_count() == 0)
    return false;
  auto blocks = blocks_.Allocate(
      CeilDivide(sequence->max_total_tokens, limits_.block_tokens));
  if (!blocks.has_value()) return false;
  sequence->blocks = *std::move(blocks);
  sequence->state_slot = *slots_.Allocate();
  by_slot_[sequence->state_slot] = sequence.get();
  sequence->tokens.reserve(sequence->max_total_tokens);
  sequence->sink->Admitted(clock_.now_seconds() - sequence->submitted_seconds,
                           /*cached_tokens=*/0);
  running_.push_back(std::move(sequence));
  return true;
}

void Scheduler::AddRows(Sequence& sequence, int64_t rows, StepPlan& plan) {
  const int64_t end = sequence.past + rows;
  const auto tokens = sequence.tokens.begin();
  const auto blocks = sequence.blocks.begin();
  const auto known = static_cast<int64_t>(sequence.tokens.size());
  plan.sequences.push_back(
      {.state_slot = sequence.state_slot,
       .past = sequence.past,
       .token_ids = {tokens + sequence.past, tokens + end},
       .block_table = {blocks, blocks + CeilDivide(end, limits_.block_tokens)},
       .logit_rows = end == known ? 1 : 0});
  if (end != known) return;
  samples_.push_back({.sampling = &sequence.request.sampling,
                      .context = sequence.tokens,
                      .prompt_tokens = sequence.prompt_tokens,
                      .held_back = {},
                      .logprobs = sequence.request.logprobs,
                      .top_n = sequence.request.top_n,
                      .given = std::nullopt});
}

void Scheduler::CommitToken(Sequence& sequence, absl::StatusOr<Token> sampled) {
  if (!sampled.ok()) return CloseSequence(sequence, sampled.status());
  CHECK(sampled->id >= 0 && sampled->id < limits_.vocab_size);
  sequence.tokens.push_back(sampled->id);
  std::vector<Token> batch;
  batch.push_back(*std::move(sampled));
  sequence.sink->Push(std::move(batch));
  if (const auto reason = FinishOf(sequence); reason.has_value())
    FinishSequence(sequence, *reason);
}

// Why a sequence that has come this far is complete, or nothing.
std::optional<FinishReason> Scheduler::FinishOf(
    const Sequence& sequence) const {
  if (sequence.generated() == 0) return std::nullopt;
  const auto& stop_ids = sequence.request.stop_ids;
  if (std::find(stop_ids.begin(), stop_ids.end(), sequence.tokens.back()) !=
      stop_ids.end())
    return FinishReason::kStop;
  if (static_cast<int64_t>(sequence.tokens.size()) >= sequence.max_total_tokens)
    return FinishReason::kLength;
  return std::nullopt;
}

// Gives back all that the sequence holds; the sink, for its end, to the caller.
TokenSink* Scheduler::End(Sequence& sequence) {
  RequestKey key{.id = sequence.request.id,
                 .choice_index = sequence.request.sampling.choice_index};
  if (sequence.state_slot >= 0) {
    blocks_.Free(sequence.blocks);
    slots_.Free(sequence.state_slot);
    by_slot_[sequence.state_slot] = nullptr;
  }
  if (on_ended_)
    on_ended_(key);
  else
    ended_.push_back(std::move(key));
  return std::exchange(sequence.sink, nullptr);
}

void Scheduler::FinishSequence(Sequence& sequence, FinishReason reason) {
  const int32_t stop_id =
      reason == FinishReason::kStop ? sequence.tokens.back() : 0;
  End(sequence)->Finish(reason, stop_id);
}

void Scheduler::CloseSequence(Sequence& sequence, const absl::Status& error) {
  End(sequence)->Close(error);
}

void Scheduler::ForgetEnded() {
  std::erase_if(running_, [](const SequencePtr& sequence) {
    return sequence->sink == nullptr;
  });
}

int64_t Scheduler::waiting() const {
  int64_t count = 0;
  for (const auto& queue : waiting_)
    count += static_cast<int64_t>(queue.size());
  return count;
}

}  // namespace phalanx
