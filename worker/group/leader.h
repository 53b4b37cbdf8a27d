#ifndef PHALANX_WORKER_GROUP_LEADER_H_
#define PHALANX_WORKER_GROUP_LEADER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker.grpc.pb.h"
#include "worker/collective/collective.h"
#include "worker/group/identity.h"
#include "worker/group/membership.h"

namespace phalanx {

// A group that all ranks have entered.
struct ServingGroup {
  std::unique_ptr<Collective> collective;
  uint64_t epoch = 0;
  // The smallest offers of all ranks.
  int64_t kv_blocks = 0;
  int64_t state_slots = 0;
};

// Rank 0's part of forming a group, from its engine thread.
class GroupLeader {
 public:
  using StubFor =
      std::function<std::unique_ptr<v1::Rank::StubInterface>(std::string)>;

  // All are lent and outlive this. `epoch_floor`: epochs start above it.
  GroupLeader(const RankIdentity& own, Membership& membership,
              CollectiveFactory& factory, StubFor stub_for,
              uint64_t epoch_floor)
      : own_(own),
        membership_(membership),
        factory_(factory),
        stub_for_(std::move(stub_for)),
        epoch_floor_(epoch_floor) {}

  // Waits until every rank has joined, makes the collective of a new epoch and
  // brings every rank into it. Try again after UNAVAILABLE: a rank went away
  // meanwhile. CANCELLED once the membership was stopped.
  absl::StatusOr<ServingGroup> Form();

 private:
  absl::Status Invite(const RankIdentity& other, uint64_t epoch,
                      const std::string& unique_id);
  void CallOff(const std::vector<RankIdentity>& others, uint64_t epoch,
               const absl::Status& reason);

  const RankIdentity own_;
  Membership& membership_;
  CollectiveFactory& factory_;
  StubFor stub_for_;
  const uint64_t epoch_floor_;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_GROUP_LEADER_H_
