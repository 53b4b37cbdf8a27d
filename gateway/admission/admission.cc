#include "gateway/admission/admission.h"

#include "absl/strings/str_cat.h"
#include "common/reason.h"

namespace phalanx {

absl::StatusOr<Ticket> Admission::Enter() {
  if (closed_.load()) {
    turned_away_.fetch_add(1);
    return ReasonedError(absl::StatusCode::kUnavailable, "DRAINING",
                         "this gateway is shutting down");
  }
  if (held_.fetch_add(1) >= limit_) {
    held_.fetch_sub(1);
    return ReasonedError(absl::StatusCode::kResourceExhausted, "QUEUE_FULL",
                         absl::StrCat("this gateway holds ", limit_,
                                      " requests, its limit (--max-requests)"),
                         {{"limit", absl::StrCat(limit_)}});
  }
  return Ticket(*this);
}

}  // namespace phalanx
