#ifndef PHALANX_WORKER_GROUP_FORMATION_INBOX_H_
#define PHALANX_WORKER_GROUP_FORMATION_INBOX_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "common/mutex.h"
#include "worker/collective/collective.h"

namespace phalanx {

// Rank 0's word that a group is whole. `done` answers it and must be called
// exactly once.
struct FormationOffer {
  uint64_t epoch = 0;
  std::string transport;
  std::string unique_id;
  std::function<void(absl::Status)> done;
};

// A follower's door for what rank 0 says: offers go to the engine thread, an
// abort reaches the group that runs. Made before the server starts and outlives
// it; any thread.
class FormationInbox {
 public:
  // RPC threads. A second offer before the first is taken ends the first with
  // ABORTED; one that comes between an abort and Reset ends with its reason, so
  // that none is left unanswered when the server goes.
  void Offer(FormationOffer offer);

  // The group of this epoch, or the wait for it, is over. Any thread; epoch 0
  // means whichever runs or is awaited (the link to rank 0 broke).
  void Abort(uint64_t epoch, const absl::Status& reason);

  // Ends the group that runs, if there is one, with what `reason` says of it.
  // Any thread.
  void AbortActive(
      const std::function<absl::Status(const Collective&)>& reason);

  // Asked while a group forms: OK, or why that is over. Any thread.
  absl::Status CalledOff() const;

  // Forgets aborts that came before: call before asking rank 0 for a group.
  void Reset();

  // This rank wants no other group: ends the wait for one with `reason`, for
  // good. A group that runs goes on. Any thread.
  void Leave(const absl::Status& reason);

  // Engine thread: blocks until an offer comes; nothing if the wait was
  // aborted or the rank leaves.
  std::optional<FormationOffer> Wait();

  // The group that an abort ends from now on; null: none. Ended at once if the
  // abort came since its offer was taken.
  void SetActive(Collective* collective, uint64_t epoch);

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  std::optional<FormationOffer> offer_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> aborted_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> left_ ABSL_GUARDED_BY(mutex_);
  Collective* active_ ABSL_GUARDED_BY(mutex_) = nullptr;
  uint64_t active_epoch_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_GROUP_FORMATION_INBOX_H_
