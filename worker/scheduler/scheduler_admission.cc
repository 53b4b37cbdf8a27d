// Who gets memory: admission, and pre-emption where it is short.

#include <algorithm>
#include <limits>
#include <utility>

#include "common/check.h"
#include "common/units.h"
#include "worker/scheduler/anchors.h"
#include "worker/scheduler/scheduler.h"

namespace phalanx {

// One suspect at a time is told that its turn has come.
void Scheduler::NextTrial() {
  if (trial_ != nullptr) return;
  for (const SequencePtr& sequence : waiting_.all()) {
    if (sequence->trial != Trial::kUntried) continue;
    trial_ = sequence.get();
    trial_->trial = Trial::kTold;
    trial_->sink->OnTrial();
    return;
  }
}

// Whether the suspect, whose reader knows, runs now. Until it does, nobody else
// is admitted.
bool Scheduler::AdmitTrial() {
  return trial_->running() || TryAdmit(*trial_) ||
         AdmitInPlaceOfOthers(*trial_);
}

void Scheduler::Admit() {
  bool blocked = running() == limits_.max_running;
  const auto lowest_priority = [this] {
    const Sequence* lowest = LowestBelow(kHighestPriority);
    return lowest == nullptr ? kHighestPriority : lowest->priority;
  };
  int lowest = lowest_priority();
  if (waiting_.empty() || (blocked && lowest == kHighestPriority)) return;
  AdmissionOrder order(waiting_, now_, limits_.ageing_seconds);
  while (Sequence* sequence = order.Next()) {
    if (blocked && sequence->priority <= lowest) continue;
    if (AwaitsPrefix(*sequence)) continue;
    if (!blocked && TryAdmit(*sequence)) continue;
    if (!AdmitInPlaceOfOthers(*sequence)) blocked = true;
    lowest = lowest_priority();
  }
}

// Whether a running sequence is about to keep a prefix that saves this one
// enough. Asked again only once that one has come there, or left.
bool Scheduler::AwaitsPrefix(Sequence& sequence) {
  const Sequence*& leader = sequence.awaited;
  if (leader != nullptr && !leader->paused() &&
      leader->past < sequence.awaited_tokens)
    return true;
  leader = nullptr;
  sequence.awaited_tokens = 0;
  for (const SequencePtr& other : running_) {
    if (other->decoding || other->paused()) continue;
    const int64_t shared =
        SharedAnchor(*other, sequence, limits_.snapshot_tokens);
    if (shared <= sequence.awaited_tokens) continue;
    leader = other.get();
    sequence.awaited_tokens = shared;
  }
  if (leader != nullptr &&
      sequence.awaited_tokens < caches_.Longest(sequence) + kWorthWaiting)
    leader = nullptr;
  return leader != nullptr;
}

// Moves it from the queue to those that run, if there is room.
bool Scheduler::TryAdmit(Sequence& sequence) {
  if (running() == limits_.max_running) return false;
  // Only more memory or a longer prefix lets in who was refused before.
  if (sequence.refused_slack.has_value() &&
      caches_.slack() <= *sequence.refused_slack &&
      caches_.inserts() == sequence.refused_inserts)
    return false;
  if (!caches_.Admit(sequence, TokensToReserve(sequence), draft_.plan)) {
    sequence.refused_slack = caches_.slack();
    sequence.refused_inserts = caches_.inserts();
    return false;
  }
  sequence.refused_slack.reset();
  sequence.awaited = nullptr;
  hit_tokens_ += sequence.past;
  running_.push_back(waiting_.Take(sequence, now_));
  sequence.admission_step = draft_.plan.step;
  if (sequence.admission > 0) return true;
  sequence.admission = ++admissions_;
  shares_.Charge(*sequence.share, sequence.pending());
  if (sequence.longest_hit() > 0) {
    totals_.prefix_queried_tokens += sequence.rows();
    totals_.prefix_hit_tokens += sequence.past;
  }
  sequence.sink->Admitted(now_ - sequence.submitted_seconds, sequence.past);
  return true;
}

// Tokens so far, those that it must make, and a little more; four times as
// much more after each pre-emption, so that it does not soon meet the next.
int64_t Scheduler::TokensToReserve(const Sequence& sequence) const {
  if (sequence.preemptions >= kMaxPreemptions) return sequence.max_total_tokens;
  const int64_t known = static_cast<int64_t>(sequence.tokens.size());
  const int64_t least = sequence.prompt_tokens + sequence.request.min_tokens;
  const int64_t more = limits_.block_tokens << (2 * sequence.preemptions);
  return std::min(sequence.max_total_tokens, std::max(least, known + more));
}

// Pre-empts sequences of lower priority until this one fits; nobody if it would
// not, as far as can be told.
bool Scheduler::AdmitInPlaceOfOthers(Sequence& sequence) {
  if (LowestBelow(sequence.priority) == nullptr) return false;
  int64_t blocks = caches_.slack();
  for (const SequencePtr& other : running_)
    if (other->priority < sequence.priority &&
        other->preemptions < kMaxPreemptions)
      blocks += CacheAccount::Share(*other);
  // All the whole blocks that it might find, or more.
  blocks += sequence.longest_hit() / limits_.block_tokens;
  if (blocks < CeilDivide(TokensToReserve(sequence), limits_.block_tokens))
    return false;
  while (Sequence* lowest = LowestBelow(sequence.priority)) {
    Preempt(*lowest, Reason::kPriority);
    if (TryAdmit(sequence)) return true;
  }
  return false;
}

// Blocks for the rows of this step beyond those promised, for the highest
// priority and the oldest first.
void Scheduler::ExtendDecoding() {
  std::vector<Sequence*> growing;
  for (const SequencePtr& sequence : running_) {
    const auto held = static_cast<int64_t>(sequence->blocks.size());
    if (sequence->decoding && !sequence->paused() &&
        sequence->past >= held * limits_.block_tokens)
      growing.push_back(sequence.get());
  }
  std::sort(growing.begin(), growing.end(),
            [](const Sequence* a, const Sequence* b) {
              if (a->priority != b->priority) return a->priority > b->priority;
              return a->admission < b->admission;
            });
  for (Sequence* sequence : growing) {
    while (sequence->running() &&
           !caches_.Extend(*sequence, sequence->past + 1)) {
      Sequence* lowest = LowestBelow(kHighestPriority + 1);
      // There is one: who keeps its caches was promised all it may need.
      CHECK(lowest != nullptr);
      Preempt(*lowest, Reason::kKv);
    }
  }
}

// The running sequence of the lowest priority below this one, of these the one
// that was first admitted last; null if none may be pre-empted. What this plan
// admitted has copies in it.
Sequence* Scheduler::LowestBelow(int priority) const {
  Sequence* lowest = nullptr;
  for (const SequencePtr& sequence : running_) {
    if (sequence->preemptions >= kMaxPreemptions ||
        sequence->priority >= priority ||
        sequence->admission_step == draft_.plan.step)
      continue;
    if (lowest == nullptr || sequence->priority < lowest->priority ||
        (sequence->priority == lowest->priority &&
         sequence->admission > lowest->admission))
      lowest = sequence.get();
  }
  return lowest;
}

void Scheduler::Preempt(Sequence& sequence, Reason reason) {
  ++(reason == Reason::kKv ? totals_.preempted_for_kv
                           : totals_.preempted_for_priority);
  ++sequence.preemptions;
  LeaveCaches(sequence);
  sequence.sink->Preempted();
  MoveToQueue(sequence);
}

// Nobody waits for what it would have kept.
void Scheduler::LeaveCaches(Sequence& sequence) {
  caches_.Release(sequence);
  for (const SequencePtr& waiting : waiting_.all())
    if (waiting->awaited == &sequence) waiting->awaited = nullptr;
}

void Scheduler::MoveToQueue(Sequence& sequence) {
  const auto place = std::find_if(
      running_.begin(), running_.end(),
      [&](const SequencePtr& other) { return other.get() == &sequence; });
  CHECK(place != running_.end());
  SequencePtr moved = std::move(*place);
  running_.erase(place);
  waiting_.Push(std::move(moved), now_);
}

}  // namespace phalanx
