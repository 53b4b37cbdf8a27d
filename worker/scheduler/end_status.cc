#include "worker/scheduler/end_status.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/reason.h"

namespace phalanx {

absl::Status ClientCancelled() {
  return ReasonedError(absl::StatusCode::kCancelled, "CLIENT",
                       "cancelled by the client");
}

absl::Status TimeoutPassed(const Sequence& sequence) {
  constexpr auto kCode = absl::StatusCode::kDeadlineExceeded;
  const std::string passed = absl::StrCat(
      "the timeout of ", sequence.request.timeout_seconds, " s passed ");
  if (sequence.generated() > 0)
    return ReasonedError(
        kCode, "IN_DECODE",
        absl::StrCat(passed, "after ", sequence.generated(), " tokens"),
        {{"tokens_done", absl::StrCat(sequence.generated())}});
  if (sequence.admission == 0)
    return ReasonedError(kCode, "IN_QUEUE", passed + "in the queue");
  return ReasonedError(
      kCode, "IN_PREFILL",
      absl::StrCat(passed, "after ", sequence.past, " of ",
                   sequence.prompt_tokens, " tokens of the prompt"));
}

absl::Status WaitedTooLong(double limit_seconds) {
  return ReasonedError(absl::StatusCode::kResourceExhausted, "QUEUE_TIMEOUT",
                       absl::StrCat("waited in the queue for ", limit_seconds,
                                    " s, the longest that it may"),
                       {{"limit_seconds", absl::StrCat(limit_seconds)}});
}

absl::Status ReadTooSlowly(double limit_seconds) {
  return ReasonedError(
      absl::StatusCode::kResourceExhausted, "SLOW_READER",
      absl::StrCat("the reader left the stream full for ", limit_seconds,
                   " s, the longest that it may"),
      {{"limit_seconds", absl::StrCat(limit_seconds)}});
}

absl::Status QueueIsFull(int64_t active, int64_t limit) {
  return ReasonedError(
      absl::StatusCode::kResourceExhausted, "QUEUE_FULL",
      absl::StrCat(active, " sequences are active; at most ", limit),
      {{"limit", absl::StrCat(limit)}});
}

absl::Status TimeoutTooShort(double timeout_seconds, double estimate_seconds) {
  return ReasonedError(
      absl::StatusCode::kResourceExhausted, "DEADLINE_UNMEETABLE",
      absl::StrCat("the timeout is ", timeout_seconds,
                   " s; the wait alone is about ", estimate_seconds, " s"),
      {{"estimate_seconds", absl::StrCat(estimate_seconds)}});
}

}  // namespace phalanx
