// What a client sees of a Generation: tokens of workers become events.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/reason.h"
#include "gateway/api/generation.h"

namespace phalanx {

void Generation::Push(v1::GenerateEvent event) {
  const int64_t before = queue_.bytes();
  queue_.Push(std::move(event));
  tally_.Buffered(queue_.bytes() - before);
}

void Generation::PushAccepted() {
  v1::GenerateEvent event;
  *event.mutable_accepted() = request_.accepted;
  event.mutable_accepted()->set_group(group_);
  event.mutable_accepted()->set_resume_token(Token());
  Push(std::move(event));
  if (request_.truncated)
    PushNotice(
        v1::Notice::TRUNCATED,
        absl::StrCat("max_tokens was cut to ", request_.worker.max_tokens(),
                     ", the rest of the context"));
}

void Generation::PushNotice(v1::Notice::Kind kind, std::string detail) {
  v1::GenerateEvent event;
  event.mutable_notice()->set_kind(kind);
  event.mutable_notice()->set_detail(std::move(detail));
  Push(std::move(event));
}

void Generation::PushDeltas(std::vector<v1::Delta> deltas) {
  const int64_t before = queue_.bytes();
  for (v1::Delta& delta : deltas)
    queue_.Push(std::move(delta), std::exchange(unsent_tokens_, 0));
  tally_.Buffered(queue_.bytes() - before);
  anything_sent_ = anything_sent_ || !deltas.empty();
}

void Generation::PushPrompt(v1::Prompt prompt) {
  if (request_.echo) {
    prompt.set_text(request_.prompt_text);
    *prompt.mutable_token_ids() = request_.worker.prompt_ids();
  }
  v1::GenerateEvent event;
  *event.mutable_prompt() = std::move(prompt);
  Push(std::move(event));
  prompt_done_ = true;
  anything_sent_ = true;
}

// What comes before any worker speaks: Accepted, and what a stream that goes on
// can tell of the ids that its client has.
void Generation::RestoreChoices() {
  std::vector<v1::Delta> deltas;
  if (origin_.point.has_value()) {
    const ResumePoint& point = *origin_.point;
    prompt_sent_ = point.prompt_sent;
    for (size_t i = 0; i < slots_.size(); ++i) {
      std::optional<std::span<const int32_t>> emitted;
      if (!origin_.emitted.empty()) emitted = origin_.emitted[i];
      const TextBytes* const seen =
          origin_.seen_text.empty() ? nullptr : &origin_.seen_text[i];
      prompt_sent_ = prompt_sent_ || (emitted.has_value() && !emitted->empty());
      for (v1::Delta& delta :
           slots_[i].choice.Restore(point.choices[i], emitted, seen))
        deltas.push_back(std::move(delta));
    }
  }
  PushAccepted();
  if (origin_.point.has_value() && origin_.point->numerics_id != numerics_id_)
    PushNotice(
        v1::Notice::DEGRADED,
        absl::StrCat("it began under numerics id ", origin_.point->numerics_id,
                     "; ", numerics_id_, " goes on"));
  prompt_done_ = prompt_sent_ || !(request_.echo || request_.prompt_logprobs);
  if (!prompt_done_ && !request_.prompt_logprobs) PushPrompt({});
  PushDeltas(std::move(deltas));
}

// Tokens of prompt and answer that its caches hold.
int64_t Generation::PlacesOf(const Slot& slot) const {
  return request_.worker.prompt_ids_size() +
         static_cast<int64_t>(slot.choice.emitted().size());
}

bool Generation::OnWorkerEvent(Leg& leg, const v1::WorkerGenerateEvent& event) {
  Errands errands;
  bool read_on;
  {
    MutexLock lock(mutex_);
    Slot& slot = slots_[leg.choice];
    if (end_.has_value() || slot.finished)
      tally_.Late(event.tokens_size());
    else
      Take(leg, slot, event, errands);
    errands.action = Next();
    read_on = queue_.size() < kMaxQueued || end_.has_value() || slot.finished;
    if (!read_on) {
      leg.stream.Pause();
      leg.paused = true;
      if (!std::exchange(paused_, true)) tally_.Paused();
    }
  }
  // The worker's call is open until OnWorkerEnd, so this object lives.
  Do(errands);
  return read_on;
}

void Generation::Take(Leg& leg, Slot& slot,
                      const v1::WorkerGenerateEvent& event, Errands& errands) {
  if (!std::exchange(leg.heard, true)) TakeFirst(leg, slot, event);
  if (event.preemptions() > 0) {
    preemptions_ += event.preemptions();
    shared_.observer.OnPreempted(PlacesOf(slot));
    PushNotice(
        v1::Notice::PREEMPTED,
        absl::StrCat("choice ", leg.choice, " gave up its caches for others"));
  }
  if (event.on_trial()) slot.trial.on_trial = true;
  if (leg.choice == 0 && !prompt_done_) {
    GatherPrompt(event);
    if (prompt_done_) GoOn(errands);
  }
  std::vector<v1::Delta> deltas = slot.choice.Push(event.tokens());
  if (event.tokens_size() > 0) {
    slot.trial.Acquit();
    CountTokens();
  }
  PushDeltas(std::move(deltas));
  if (event.has_finished())
    FinishChoice(slot, event.finished(), errands);
  else if (slot.choice.stopped()) {
    errands.cancel.push_back(slot.leg);
    FinishChoice(slot, v1::WorkerFinished(), errands);
  }
}

// A group speaks of this choice for the first time.
void Generation::TakeFirst(Leg& leg, const Slot& slot,
                           const v1::WorkerGenerateEvent& event) {
  if (event.has_queue_seconds()) {
    if (!tally_.admitted())
      tally_.Admitted(event.queue_seconds(), event.cached_tokens());
    else if (leg.route > 1)
      shared_.observer.OnReadmitted(PlacesOf(slot), event.cached_tokens());
  }
  if (leg.route != routes_ || !notice_.has_value()) return;
  // A stream that had sent nothing has nothing to be told of, as long as what
  // Accepted said is true.
  shared_.observer.OnResume(ResumeResult::kResumed);
  if (anything_sent_ || *notice_ != v1::Notice::RESUMED) {
    ++resumes_;
    PushNotice(*notice_, notice_detail_);
  }
  notice_.reset();
}

// The log-probabilities of the prompt come in one message or in several, before
// any token.
void Generation::GatherPrompt(const v1::WorkerGenerateEvent& event) {
  for (const v1::WorkerToken& token : event.prompt_tokens())
    ToLogprob(token, *prompt_.add_logprobs());
  if (prompt_.logprobs_size() >= request_.worker.prompt_ids_size() - 1 ||
      event.tokens_size() > 0 || event.has_finished())
    PushPrompt(std::move(prompt_));
}

void Generation::CountTokens() {
  int64_t tokens = 0, reasoning = 0, withheld = 0;
  for (const Slot& slot : slots_) {
    tokens += slot.choice.tokens() - slot.choice.restored_tokens();
    reasoning += slot.choice.reasoning_tokens() -
                 slot.choice.restored_reasoning_tokens();
    withheld += slot.choice.withheld_tokens();
  }
  unsent_tokens_ += tokens - tally_.tokens();
  tally_.Tokens(tokens, reasoning);
  tally_.Withheld(withheld);
}

void Generation::FinishChoice(Slot& slot, const v1::WorkerFinished& why,
                              Errands& errands) {
  slot.finished = true;
  slot.waiting = false;
  Choice::Ending ending = slot.choice.End(why);
  PushDeltas(std::move(ending.deltas));
  if (&slot == &slots_.front()) outcome_ = ending.outcome;
  v1::GenerateEvent event;
  *event.mutable_finished() = std::move(ending.finished);
  Push(std::move(event));
  if (!std::all_of(slots_.begin(), slots_.end(),
                   [](const Slot& one) { return one.finished; }))
    return;
  PushSummary();
  End(absl::OkStatus(), errands);
}

void Generation::PushSummary() {
  int64_t tokens = 0, reasoning = 0;
  for (const Slot& slot : slots_) {
    tokens += slot.choice.tokens();
    reasoning += slot.choice.reasoning_tokens();
  }
  const double total = tally_.total_seconds();
  const double decode = total - tally_.first_token_seconds();
  v1::GenerateEvent event;
  v1::Summary& summary = *event.mutable_summary();
  summary.set_prompt_tokens(request_.worker.prompt_ids_size());
  summary.set_cached_tokens(tally_.cached_tokens());
  summary.set_completion_tokens(tokens);
  summary.set_reasoning_tokens(reasoning);
  summary.set_queue_seconds(tally_.queue_seconds());
  summary.set_time_to_first_token_seconds(tally_.first_token_seconds());
  summary.set_decode_seconds(decode);
  summary.set_total_seconds(total);
  const int64_t fresh = tally_.tokens();
  summary.set_tokens_per_second(
      fresh > 1 && decode > 0 ? static_cast<double>(fresh - 1) / decode : 0);
  summary.set_resumes(resumes_);
  summary.set_preemptions(preemptions_);
  Push(std::move(event));
}

}  // namespace phalanx
