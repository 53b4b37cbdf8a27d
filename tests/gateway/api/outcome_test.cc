#include "gateway/api/outcome.h"

#include <gtest/gtest.h>

#include "common/reason.h"

namespace phalanx {
namespace {

using absl::StatusCode;

struct Row {
  StatusCode code;
  const char* word;
  const char* outcome;
  const char* rejection;  // Null: it is none.
};

// serving.md section 2, as far as a request meets it.
constexpr Row kRows[] = {
    {StatusCode::kInvalidArgument, "BAD_FIELD", "rejected", "invalid"},
    {StatusCode::kInvalidArgument, "PROMPT_EMPTY", "rejected", "invalid"},
    {StatusCode::kInvalidArgument, "INVALID_UTF8", "rejected", "invalid"},
    {StatusCode::kInvalidArgument, "PROMPT_TOO_LONG", "rejected",
     "prompt_too_long"},
    {StatusCode::kInvalidArgument, "NEVER_FITS", "rejected", "kv_never_fits"},
    {StatusCode::kUnimplemented, "FEATURE_OFF", "rejected", "invalid"},
    {StatusCode::kNotFound, "MODEL", "rejected", "invalid"},
    {StatusCode::kAlreadyExists, "REQUEST_ACTIVE", "rejected", "invalid"},
    {StatusCode::kUnauthenticated, "NO_CREDENTIALS", "rejected",
     "unauthenticated"},
    {StatusCode::kPermissionDenied, "MODEL_FORBIDDEN", "rejected",
     "unauthenticated"},
    {StatusCode::kResourceExhausted, "QUEUE_FULL", "rejected", "queue_full"},
    {StatusCode::kResourceExhausted, "QUEUE_TIMEOUT", "rejected",
     "queue_timeout"},
    {StatusCode::kResourceExhausted, "DEADLINE_UNMEETABLE", "rejected",
     "deadline_unmeetable"},
    {StatusCode::kResourceExhausted, "RATE_LIMITED", "rejected",
     "rate_limited"},
    {StatusCode::kResourceExhausted, "SLOW_READER", "cancelled", nullptr},
    {StatusCode::kInvalidArgument, "BAD_RESUME_TOKEN", "rejected", "invalid"},
    {StatusCode::kUnavailable, "STARTING", "rejected", "no_ready_group"},
    {StatusCode::kUnavailable, "NO_READY_GROUP", "rejected", "no_ready_group"},
    {StatusCode::kUnavailable, "DRAINING", "rejected", "draining"},
    {StatusCode::kUnavailable, "GROUP_LOST", "group_lost", nullptr},
    {StatusCode::kDeadlineExceeded, "IN_QUEUE", "deadline", nullptr},
    {StatusCode::kDeadlineExceeded, "IN_PREFILL", "deadline", nullptr},
    {StatusCode::kDeadlineExceeded, "IN_DECODE", "deadline", nullptr},
    {StatusCode::kCancelled, "CLIENT", "cancelled", nullptr},
    {StatusCode::kCancelled, "DISCONNECTED", "cancelled", nullptr},
    {StatusCode::kInternal, "BUG", "error", nullptr},
    {StatusCode::kInternal, "POISON", "error", nullptr},
    {StatusCode::kInternal, "NON_FINITE_LOGITS", "error", nullptr},
    {StatusCode::kDataLoss, "WEIGHTS_CORRUPT", "error", nullptr},
};

TEST(Outcome, IsWhatTheTableSays) {
  for (const Row& row : kRows)
    EXPECT_STREQ(
        OutcomeName(OutcomeOf(ReasonedError(row.code, row.word, "why"))),
        row.outcome)
        << row.word;
}

TEST(Rejection, IsWhatTheTableSays) {
  for (const Row& row : kRows) {
    if (row.rejection == nullptr) continue;
    const auto rejection =
        RejectionOf(ReasonedError(row.code, row.word, "why"));
    EXPECT_STREQ(kRejectionNames[static_cast<size_t>(rejection)], row.rejection)
        << row.word;
  }
}

}  // namespace
}  // namespace phalanx
