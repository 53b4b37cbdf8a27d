#include "worker/group/formation_inbox.h"

#include <utility>

namespace phalanx {

void FormationInbox::Offer(FormationOffer offer) {
  std::optional<FormationOffer> unwanted;
  absl::Status why = absl::AbortedError("a newer offer came");
  {
    MutexLock lock(mutex_);
    if (aborted_.has_value() || left_.has_value()) {
      why = aborted_.has_value() ? *aborted_ : *left_;
      unwanted = std::move(offer);
    } else {
      unwanted = std::exchange(offer_, std::move(offer));
      changed_.SignalAll();
    }
  }
  if (unwanted.has_value()) unwanted->done(why);
}

void FormationInbox::Abort(uint64_t epoch, const absl::Status& reason) {
  std::optional<FormationOffer> dropped;
  {
    MutexLock lock(mutex_);
    // A late word about a group that is over already says nothing new.
    if (active_ != nullptr && epoch != 0 && epoch < active_epoch_) return;
    aborted_ = reason;
    if (active_ != nullptr) active_->Abort(reason);
    dropped = std::exchange(offer_, std::nullopt);
    changed_.SignalAll();
  }
  if (dropped.has_value()) dropped->done(reason);
}

void FormationInbox::AbortActive(
    const std::function<absl::Status(const Collective&)>& reason) {
  MutexLock lock(mutex_);
  if (active_ != nullptr) active_->Abort(reason(*active_));
}

void FormationInbox::Leave(const absl::Status& reason) {
  std::optional<FormationOffer> dropped;
  {
    MutexLock lock(mutex_);
    left_ = reason;
    dropped = std::exchange(offer_, std::nullopt);
    changed_.SignalAll();
  }
  if (dropped.has_value()) dropped->done(reason);
}

absl::Status FormationInbox::CalledOff() const {
  MutexLock lock(mutex_);
  if (aborted_.has_value()) return *aborted_;
  return left_.value_or(absl::OkStatus());
}

void FormationInbox::Reset() {
  MutexLock lock(mutex_);
  aborted_.reset();
}

std::optional<FormationOffer> FormationInbox::Wait() {
  MutexLock lock(mutex_);
  changed_.Wait(mutex_, [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return offer_.has_value() || aborted_.has_value() || left_.has_value();
  });
  if (aborted_.has_value() || left_.has_value()) return std::nullopt;
  return std::exchange(offer_, std::nullopt);
}

void FormationInbox::SetActive(Collective* collective, uint64_t epoch) {
  MutexLock lock(mutex_);
  active_ = collective;
  active_epoch_ = epoch;
  if (active_ != nullptr && aborted_.has_value()) active_->Abort(*aborted_);
}

}  // namespace phalanx
