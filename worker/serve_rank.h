#ifndef PHALANX_WORKER_SERVE_RANK_H_
#define PHALANX_WORKER_SERVE_RANK_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "worker.grpc.pb.h"
#include "worker/engine/engine.h"
#include "worker/engine/follower.h"
#include "worker/engine/status_board.h"
#include "worker/group/formation_inbox.h"
#include "worker/group/identity.h"
#include "worker/group/leader.h"
#include "worker/group/membership.h"

namespace phalanx {

// Rank 0's life: form a group, serve it, and again when it is lost. Returns OK
// when the group has ended and `leaving` is set, else what this process cannot
// live with. Engine thread.
absl::Status ServeLeader(GroupLeader& leader, Membership& membership,
                         Engine& engine, StatusBoard& board,
                         const std::atomic<bool>& leaving);

// A follower's: find rank 0, join, follow, and again. The same results; it
// follows a group that runs to its end, also when `leaving` is set.
absl::Status ServeFollower(v1::Rank::StubInterface& leader,
                           const RankIdentity& identity, FormationInbox& inbox,
                           CollectiveFactory& factory, Follower& follower,
                           StatusBoard& board,
                           const std::atomic<bool>& leaving);

}  // namespace phalanx

#endif  // PHALANX_WORKER_SERVE_RANK_H_
