#include "worker/scheduler/inbox.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/reason.h"
#include "common/status.h"

namespace phalanx {

Inbox::Inbox()
    : closed_(ReasonedError(absl::StatusCode::kUnavailable, "STARTING",
                            "the group is not ready yet")) {}

absl::Status Inbox::Submit(Request request, TokenSink* sink) {
  CHECK(sink != nullptr);
  RequestKey key{.id = request.id,
                 .choice_index = request.sampling.choice_index};
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(closed_);
  if (request.epoch != epoch_)
    return ReasonedError(
        absl::StatusCode::kFailedPrecondition, "STALE_EPOCH",
        absl::StrCat("epoch is ", request.epoch, "; the group's is ", epoch_),
        {{"epoch", absl::StrCat(epoch_)},
         {"actual", absl::StrCat(request.epoch)}});
  RETURN_IF_ERROR(ValidateRequest(request, limits_));
  if (active_.contains(key))
    return ReasonedError(absl::StatusCode::kAlreadyExists, "REQUEST_ACTIVE",
                         absl::StrCat("request ", key.id, " choice ",
                                      key.choice_index, " is active already"));
  const int64_t limit = limits_.max_running + limits_.max_waiting;
  if (static_cast<int64_t>(active_.size()) >= limit)
    return ReasonedError(
        absl::StatusCode::kResourceExhausted, "QUEUE_FULL",
        absl::StrCat(active_.size(), " sequences are active; at most ", limit),
        {{"limit", absl::StrCat(limit)}});
  active_.insert(std::move(key));
  submissions_.push_back({.request = std::move(request), .sink = sink});
  changed_.SignalAll();
  return absl::OkStatus();
}

bool Inbox::Cancel(absl::string_view request_id) {
  MutexLock lock(mutex_);
  if (!IsActive(request_id)) return false;
  cancel_asked_.emplace(request_id);
  changed_.SignalAll();
  return true;
}

void Inbox::Wake() {
  MutexLock lock(mutex_);
  woken_ = true;
  changed_.SignalAll();
}

int64_t Inbox::active() const {
  MutexLock lock(mutex_);
  return static_cast<int64_t>(active_.size());
}

void Inbox::Close(absl::Status status) {
  CHECK(!status.ok());
  MutexLock lock(mutex_);
  closed_ = std::move(status);
  woken_ = true;
  changed_.SignalAll();
}

void Inbox::Open(uint64_t epoch, const SchedulerLimits& limits) {
  CHECK(ValidateLimits(limits).ok());
  MutexLock lock(mutex_);
  CHECK(active_.empty());
  epoch_ = epoch;
  limits_ = limits;
  closed_ = absl::OkStatus();
}

bool Inbox::WaitForWork(std::chrono::nanoseconds timeout) {
  MutexLock lock(mutex_);
  const bool found = changed_.WaitFor(mutex_, timeout, [this] {
    return woken_ || !submissions_.empty() || !cancel_asked_.empty();
  });
  woken_ = false;
  return found;
}

Arrivals Inbox::Drain() {
  MutexLock lock(mutex_);
  return {.submissions = std::exchange(submissions_, {}),
          .cancelled_ids = std::exchange(cancel_asked_, {})};
}

void Inbox::Ended(std::span<const RequestKey> keys) {
  MutexLock lock(mutex_);
  for (const RequestKey& key : keys) {
    CHECK(active_.erase(key) == 1);
    // An old wish to cancel must not meet a new request of the same id.
    if (!IsActive(key.id)) cancel_asked_.erase(key.id);
  }
}

void Inbox::CloseAndEndAll(const absl::Status& status) {
  Close(status);
  // Without the lock, since a sink may lock its own; and after Ended, so that
  // whoever is told of the end may use the id again at once.
  for (const Submission& submission : Drain().submissions) {
    const RequestKey key{
        .id = submission.request.id,
        .choice_index = submission.request.sampling.choice_index};
    Ended({&key, 1});
    submission.sink->Close(status);
  }
}

bool Inbox::IsActive(absl::string_view request_id) const {
  const auto first = active_.lower_bound(
      RequestKey{.id = std::string(request_id), .choice_index = 0});
  return first != active_.end() && first->id == request_id;
}

}  // namespace phalanx
