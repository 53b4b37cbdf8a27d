#ifndef PHALANX_WORKER_GROUP_MEMBERSHIP_H_
#define PHALANX_WORKER_GROUP_MEMBERSHIP_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "worker/collective/collective.h"
#include "worker/group/heartbeat.h"
#include "worker/group/identity.h"

namespace phalanx {

// Rank 0's book of who is there. A rank is present while its heartbeat stream
// is open and not silent, and joined once it has said who it is since the last
// group was formed. Made by rank 0 before its server starts and outlives it;
// any thread.
class Membership {
 public:
  explicit Membership(const RankIdentity& own);

  // A heartbeat stream of `rank` opened; the result names it to Closed. A newer
  // stream of the same rank replaces the older, whose process is taken for
  // lost.
  int64_t HeartbeatOpened(int rank);

  // A beat came. False if that stream does not count any more: its rank was
  // silent for too long, or has a newer one.
  bool HeartbeatCame(int rank, int64_t stream);

  // The stream is gone, and so is the process. Ends the active group.
  void HeartbeatClosed(int rank, int64_t stream);

  // Call once every kHeartbeatTick: a rank that was silent for kSilentTicks is
  // lost, which ends the active group.
  void Tick();

  // FAILED_PRECONDITION/VERSION_MISMATCH names what differs, or pools that are
  // too small;
  // FAILED_PRECONDITION/WRONG_STATE if no heartbeat of that rank is open.
  absl::Status Join(const RankIdentity& identity, uint64_t last_epoch);

  // Blocks until all other ranks have joined, and uses their joins up: the next
  // call waits for new ones. Ranks in order. CANCELLED after Stop.
  absl::StatusOr<std::vector<RankIdentity>> WaitWhole();

  // Above every epoch that any rank has lived in, and above `floor`.
  uint64_t NextEpoch(uint64_t floor);

  // The group that a loss ends from now on; null: none. If a rank was lost
  // since WaitWhole returned, it is ended at once.
  void SetActive(Collective* collective);

  // OK, or GROUP_LOST: a rank was lost since WaitWhole returned, or Stop was
  // called. Asked while a group forms.
  absl::Status CalledOff() const;

  // Ends the active group, if there is one, with what `reason` says of it.
  void AbortActive(
      const std::function<absl::Status(const Collective&)>& reason);

  // Ranks that are missing now, for GetStatus.
  std::vector<int> Missing() const;

  void Stop();

 private:
  struct Member {
    int64_t stream = 0;  // 0: not present.
    bool joined = false;
    RankIdentity identity;
    SilenceWatch silence = {};
  };

  bool WholeLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LostLocked(int rank, const char* cause)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const RankIdentity own_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<Member> members_ ABSL_GUARDED_BY(mutex_);
  int64_t streams_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t last_epoch_ ABSL_GUARDED_BY(mutex_) = 0;
  Collective* active_ ABSL_GUARDED_BY(mutex_) = nullptr;
  absl::Status lost_ ABSL_GUARDED_BY(mutex_);  // Since WaitWhole; OK: none.
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_GROUP_MEMBERSHIP_H_
