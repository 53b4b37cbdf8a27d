#ifndef PHALANX_GATEWAY_API_OUTCOME_H_
#define PHALANX_GATEWAY_API_OUTCOME_H_

#include <array>
#include <cstdint>

#include "absl/status/status.h"

namespace phalanx {

// How a request ended, as the finished line and the metrics spell it.
enum class RequestOutcome : uint8_t {
  kStop,
  kStopString,
  kLength,
  kTimeLimit,
  kCancelled,
  kDeadline,
  kRejected,
  kGroupLost,
  kError,
};
inline constexpr int kRequestOutcomes = 9;
inline constexpr std::array<const char*, kRequestOutcomes> kOutcomeNames = {
    "stop",     "stop_string", "length",     "time_limit", "cancelled",
    "deadline", "rejected",    "group_lost", "error"};

constexpr const char* OutcomeName(RequestOutcome outcome) {
  return kOutcomeNames[static_cast<size_t>(outcome)];
}

// Of a request that ended with this error.
RequestOutcome OutcomeOf(const absl::Status& error);

// Why a request was rejected.
enum class Rejection : uint8_t {
  kQueueFull,
  kQueueTimeout,
  kDeadlineUnmeetable,
  kRateLimited,
  kPromptTooLong,
  kInvalid,
  kUnauthenticated,
  kNoReadyGroup,
  kDraining,
  kNeverFits,
};
inline constexpr int kRejections = 10;
inline constexpr std::array<const char*, kRejections> kRejectionNames = {
    "queue_full",      "queue_timeout", "deadline_unmeetable", "rate_limited",
    "prompt_too_long", "invalid",       "unauthenticated",     "no_ready_group",
    "draining",        "kv_never_fits"};

// Of an error whose outcome is kRejected. What has no word of its own is
// invalid: the caller must change the call.
Rejection RejectionOf(const absl::Status& error);

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_API_OUTCOME_H_
