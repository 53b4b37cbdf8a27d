#ifndef PHALANX_WORKER_COLLECTIVE_SHM_FORMATION_H_
#define PHALANX_WORKER_COLLECTIVE_SHM_FORMATION_H_

#include <memory>

#include "absl/status/statusor.h"
#include "worker/collective/peer_watch.h"
#include "worker/collective/shm.h"
#include "worker/collective/shm_segment.h"

namespace phalanx {

// What a rank holds once its group has formed.
struct FormedGroup {
  std::unique_ptr<ShmSegment> segment;  // Without a name.
  std::unique_ptr<PeerWatch> peers;     // All other ranks.
};

// The first half of JoinShmGroup; the same errors.
//
// Rank 0 makes the segment. Each rank claims its record in it and begins to
// watch the processes of those that have claimed theirs. When all have, rank 0
// removes the name and says so; with that everybody returns. A rank that fails
// after its claim ends the group for the others and removes the name, so the
// name outlives only the death of every rank that had come.
absl::StatusOr<FormedGroup> FormShmGroup(const ShmConfig& config);

}  // namespace phalanx

#endif  // PHALANX_WORKER_COLLECTIVE_SHM_FORMATION_H_
