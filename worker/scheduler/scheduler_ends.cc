// How sequences leave the scheduler, for good or, unread, for a while.

#include <algorithm>
#include <utility>

#include "worker/scheduler/end_status.h"
#include "worker/scheduler/scheduler.h"

namespace phalanx {

void Scheduler::EndAndPark() {
  for (const SequencePtr& sequence : running_) {
    WatchReader(*sequence);
    EndIfDue(*sequence);
  }
  for (const SequencePtr& sequence : waiting_.all()) {
    WatchReader(*sequence);
    EndIfDue(*sequence);
  }
  ForgetEnded();
  // From behind, since who is parked leaves its place.
  for (int64_t i = running(); i-- > 0;) {
    Sequence& sequence = *running_[i];
    if (!sequence.paused() ||
        now_ - *sequence.full_since < limits_.park_seconds)
      continue;
    LeaveCaches(sequence);
    MoveToQueue(sequence);
  }
}

// A sequence in its trial makes no token before the trial is over.
void Scheduler::WatchReader(Sequence& sequence) {
  const bool full = sequence.trial == Trial::kPassed && sequence.sink->full();
  if (full == sequence.paused()) return;
  if (full) {
    sequence.waited_seconds = sequence.waited(now_);
    sequence.full_since = now_;
  } else {
    sequence.full_since.reset();
    sequence.waits_since = now_;
  }
}

void Scheduler::EndIfDue(Sequence& sequence) {
  const Request& request = sequence.request;
  const double age = now_ - sequence.submitted_seconds;
  if (sequence.cancel_asked || sequence.sink->cancelled())
    CloseSequence(sequence, ClientCancelled());
  else if (age >= request.max_time_seconds &&
           request.max_time_seconds <= request.timeout_seconds)
    FinishSequence(sequence, FinishReason::kTimeLimit);
  else if (age >= request.timeout_seconds)
    CloseSequence(sequence, TimeoutPassed(sequence));
  else if (sequence.admission == 0 && sequence.generated() == 0 &&
           age >= limits_.max_wait_seconds)
    CloseSequence(sequence, WaitedTooLong(limits_.max_wait_seconds));
  else if (sequence.paused() &&
           now_ - *sequence.full_since >= limits_.slow_reader_seconds)
    CloseSequence(sequence, ReadTooSlowly(limits_.slow_reader_seconds));
}

// Why a sequence that has come this far is complete, or nothing.
std::optional<FinishReason> Scheduler::FinishOf(
    const Sequence& sequence) const {
  if (sequence.scoring()) return std::nullopt;
  const auto& stop_ids = sequence.request.stop_ids;
  if (sequence.generated() > 0 &&
      std::find(stop_ids.begin(), stop_ids.end(), sequence.tokens.back()) !=
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
  if (sequence.share != nullptr) {  // Else it ends before it is queued.
    if (sequence.running())
      LeaveCaches(sequence);
    else
      --sequence.share->waiting;
    shares_.Leave(sequence.request.key);
  }
  if (trial_ == &sequence) trial_ = nullptr;
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
  waiting_.ForgetEnded();
}

}  // namespace phalanx
