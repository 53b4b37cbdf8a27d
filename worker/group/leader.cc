#include "worker/group/leader.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/grpc_status.h"
#include "common/status.h"

namespace phalanx {
namespace {

// The follower's engine thread answers, and it only waits for that.
constexpr std::chrono::seconds kInviteDeadline{4};
constexpr std::chrono::seconds kCallOffDeadline{1};

}  // namespace

absl::StatusOr<ServingGroup> GroupLeader::Form() {
  ASSIGN_OR_RETURN(const std::vector<RankIdentity> others,
                   membership_.WaitWhole());
  ServingGroup group;
  group.epoch = membership_.NextEpoch(epoch_floor_);
  group.kv_blocks = own_.kv_blocks;
  group.state_slots = own_.state_slots;
  for (const RankIdentity& other : others) {
    group.kv_blocks = std::min(group.kv_blocks, other.kv_blocks);
    group.state_slots = std::min(group.state_slots, other.state_slots);
  }
  const std::string unique_id = factory_.NewId(group.epoch);
  absl::Status status;
  for (const RankIdentity& other : others) {
    // A rank that is known to be lost would not answer.
    status = membership_.CalledOff();
    if (status.ok()) status = Invite(other, group.epoch, unique_id);
    if (!status.ok()) break;
  }
  if (status.ok()) {
    auto collective = factory_.Join(group.epoch, unique_id,
                                    [this] { return membership_.CalledOff(); });
    status = collective.status();
    if (status.ok()) group.collective = *std::move(collective);
  }
  if (!status.ok()) {
    CallOff(others, group.epoch, status);
    return absl::UnavailableError(status.message());
  }
  return group;
}

absl::Status GroupLeader::Invite(const RankIdentity& other, uint64_t epoch,
                                 const std::string& unique_id) {
  v1::FormGroupRequest request;
  request.set_epoch(epoch);
  request.set_tp_size(own_.tp_size);
  request.set_transport(factory_.transport());
  request.set_unique_id(unique_id);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kInviteDeadline);
  v1::FormGroupResponse response;
  const absl::Status status = FromGrpc(
      stub_for_(other.address)->FormGroup(&context, request, &response));
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat("rank ", other.rank, " did not enter epoch ",
                                   epoch, ": ", status.message()));
}

// Ranks that still wait for this group, or are in it, must join anew.
void GroupLeader::CallOff(const std::vector<RankIdentity>& others,
                          uint64_t epoch, const absl::Status& reason) {
  for (const RankIdentity& other : others) {
    v1::AbortRequest request;
    request.set_epoch(epoch);
    request.set_rank(own_.rank);
    request.set_reason(std::string(reason.message()));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kCallOffDeadline);
    v1::AbortResponse response;
    stub_for_(other.address)->Abort(&context, request, &response);
  }
}

}  // namespace phalanx
