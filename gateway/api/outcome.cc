#include "gateway/api/outcome.h"

#include <map>
#include <string>

#include "common/reason.h"

namespace phalanx {

RequestOutcome OutcomeOf(const absl::Status& error) {
  switch (error.code()) {
    case absl::StatusCode::kCancelled:
      return RequestOutcome::kCancelled;
    case absl::StatusCode::kDeadlineExceeded:
      return RequestOutcome::kDeadline;
    case absl::StatusCode::kUnavailable:
      return ReasonOf(error).word == "GROUP_LOST" ? RequestOutcome::kGroupLost
                                                  : RequestOutcome::kRejected;
    // It ran, and ended for what its client did not do.
    case absl::StatusCode::kResourceExhausted:
      return ReasonOf(error).word == "SLOW_READER" ? RequestOutcome::kCancelled
                                                   : RequestOutcome::kRejected;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
      return RequestOutcome::kRejected;
    default:
      return RequestOutcome::kError;
  }
}

Rejection RejectionOf(const absl::Status& error) {
  static const auto& by_word = *new std::map<std::string, Rejection>{
      {"QUEUE_FULL", Rejection::kQueueFull},
      {"QUEUE_TIMEOUT", Rejection::kQueueTimeout},
      {"DEADLINE_UNMEETABLE", Rejection::kDeadlineUnmeetable},
      {"RATE_LIMITED", Rejection::kRateLimited},
      {"PROMPT_TOO_LONG", Rejection::kPromptTooLong},
      {"STARTING", Rejection::kNoReadyGroup},
      {"NO_READY_GROUP", Rejection::kNoReadyGroup},
      {"DRAINING", Rejection::kDraining},
      {"NEVER_FITS", Rejection::kNeverFits},
  };
  const auto found = by_word.find(ReasonOf(error).word);
  if (found != by_word.end()) return found->second;
  return absl::IsUnauthenticated(error) || absl::IsPermissionDenied(error)
             ? Rejection::kUnauthenticated
             : Rejection::kInvalid;
}

}  // namespace phalanx
