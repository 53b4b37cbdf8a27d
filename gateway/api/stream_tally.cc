#include "gateway/api/stream_tally.h"

#include <algorithm>

namespace phalanx {

void StreamTally::Begin() {
  begun_ = true;
  observer_.OnWaiting(place_);
}

void StreamTally::Admitted(double queue_seconds, int64_t cached_tokens) {
  admitted_ = true;
  admitted_seconds_ = clock_.now_seconds();
  queue_seconds_ = queue_seconds;
  cached_tokens_ = cached_tokens;
  observer_.OnAdmitted(place_, queue_seconds, prompt_tokens_, cached_tokens);
}

void StreamTally::Moved(int64_t group) {
  if (group == place_.group) return;
  QueuedRequest is = place_;
  is.group = group;
  observer_.OnMoved(place_, is, admitted_);
  place_ = is;
}

void StreamTally::Tokens(int64_t tokens, int64_t reasoning_tokens) {
  if (tokens == tokens_) return;
  if (tokens_ == 0) {
    const double now = clock_.now_seconds();
    first_token_seconds_ = now - place_.arrived_seconds;
    if (admitted_) observer_.OnPrefilled(now - admitted_seconds_);
  }
  const int64_t reasoning = reasoning_tokens - reasoning_tokens_;
  observer_.OnTokens(tokens - tokens_ - reasoning, reasoning);
  tokens_ = tokens;
  reasoning_tokens_ = reasoning_tokens;
}

void StreamTally::Buffered(int64_t bytes) {
  buffered_bytes_ += bytes;
  buffered_bytes_most_ = std::max(buffered_bytes_most_, buffered_bytes_);
}

void StreamTally::Written(int64_t tokens) {
  const double now = clock_.now_seconds();
  if (delta_seconds_ == 0)
    observer_.OnFirstDelta(now - place_.arrived_seconds);
  else
    observer_.OnNextDelta(now - delta_seconds_);
  delta_seconds_ = now;
  written_tokens_ += tokens;
}

// Computed for nothing, because a group or a gateway was lost.
void StreamTally::Withheld(int64_t tokens) {
  if (tokens == withheld_tokens_) return;
  observer_.OnDiscarded(RequestOutcome::kGroupLost, tokens - withheld_tokens_);
  withheld_tokens_ = tokens;
}

void StreamTally::Resumed() {
  observer_.OnStall(clock_.now_seconds() - paused_seconds_);
}

void StreamTally::End(RequestOutcome outcome, const absl::Status& status) {
  outcome_ = outcome;
  RequestEnd end;
  end.outcome = outcome;
  end.status = status;
  end.seconds = total_seconds();
  end.streamed = begun_;
  end.prompt_tokens = prompt_tokens_;
  end.generated_tokens = tokens_;
  end.discarded_tokens =
      dropped_ ? tokens_ - written_tokens_ - withheld_tokens_ : 0;
  end.buffered_bytes_most = buffered_bytes_most_;
  if (begun_) observer_.OnStreamEnd(place_, admitted_);
  observer_.OnEnd(end);
}

void StreamTally::Late(int64_t tokens) {
  observer_.OnDiscarded(outcome_, tokens);
}

void StreamTally::WorkerEnded(absl::StatusCode code, double seconds) {
  observer_.OnWorkerCall(code, seconds);
}

}  // namespace phalanx
