#include "worker/serve_rank.h"

#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "common/log.h"
#include "common/reason.h"
#include "worker/group/leader_link.h"

namespace phalanx {
namespace {

// Between tries to reach rank 0, or to form a group that just failed to.
constexpr std::chrono::milliseconds kRetry{20};

// A diverged rank or a broken device would only fail again: the process must
// not go on, so that its parent starts a new one.
bool Fatal(const absl::Status& status) {
  return !status.ok() && !absl::IsUnavailable(status) &&
         !absl::IsCancelled(status);
}

void ShowWaiting(StatusBoard& board, const std::string& why) {
  board.Write([&](WorkerSnapshot& s) {
    s.state = WorkerState::kForming;
    s.detail = why;
  });
}

// One stay in a group that rank 0 offered. Returns how it ended.
absl::Status Follow(FormationOffer offer, FormationInbox& inbox,
                    CollectiveFactory& factory, Follower& follower,
                    uint64_t& last_epoch) {
  if (offer.transport != factory.transport()) {
    const absl::Status wrong =
        ReasonedError(absl::StatusCode::kFailedPrecondition, "VERSION_MISMATCH",
                      "rank 0 offers transport " + offer.transport +
                          "; this rank has " + factory.transport());
    offer.done(wrong);
    return wrong;
  }
  offer.done(absl::OkStatus());
  last_epoch = offer.epoch;
  auto collective = factory.Join(offer.epoch, offer.unique_id,
                                 [&] { return inbox.CalledOff(); });
  if (!collective.ok())
    return absl::UnavailableError(collective.status().message());
  LogInfo("group", "formed", {{"epoch", offer.epoch}});
  inbox.SetActive(collective->get(), offer.epoch);
  const absl::Status status = follower.Run(**collective, offer.epoch);
  inbox.SetActive(nullptr, 0);
  return status;
}

}  // namespace

absl::Status ServeLeader(GroupLeader& leader, Membership& membership,
                         Engine& engine, StatusBoard& board,
                         const std::atomic<bool>& leaving) {
  ShowWaiting(board, "waiting for every rank to join");
  while (!leaving.load()) {
    absl::StatusOr<ServingGroup> group = leader.Form();
    if (absl::IsCancelled(group.status())) break;
    if (!group.ok()) {
      LogWarning("group", "not formed", {{"cause", group.status().message()}});
      std::this_thread::sleep_for(kRetry);
      continue;
    }
    LogInfo("group", "formed", {{"epoch", group->epoch}});
    membership.SetActive(group->collective.get());
    const absl::Status status = engine.Run(
        *group->collective, group->epoch,
        {.kv_blocks = group->kv_blocks, .state_slots = group->state_slots});
    membership.SetActive(nullptr);
    if (!status.ok()) {
      // On the way out the others may simply have gone first.
      if (!leaving.load())
        LogError("group", "lost",
                 {{"epoch", group->epoch}, {"cause", status.message()}});
      group->collective->Abort(status);
    }
    if (Fatal(status)) return status;
  }
  return absl::OkStatus();
}

absl::Status ServeFollower(v1::Rank::StubInterface& leader,
                           const RankIdentity& identity, FormationInbox& inbox,
                           CollectiveFactory& factory, Follower& follower,
                           StatusBoard& board,
                           const std::atomic<bool>& leaving) {
  uint64_t last_epoch = 0;
  std::unique_ptr<LeaderLink> link;
  while (!leaving.load()) {
    ShowWaiting(board, "waiting for rank 0 to form the group");
    if (link == nullptr || link->broken()) {
      link.reset();
      auto connected = LeaderLink::Connect(leader, identity, inbox);
      if (!connected.ok()) {
        std::this_thread::sleep_for(kRetry);
        continue;
      }
      link = *std::move(connected);
    }
    inbox.Reset();
    // Reset forgets a loss that came before it.
    if (link->broken()) continue;
    const absl::Status joined = link->Join(last_epoch);
    if (ReasonOf(joined).word == "VERSION_MISMATCH") {
      LogError("group", "refused", {{"cause", joined.message()}});
      return joined;
    }
    if (!joined.ok()) {
      link.reset();
      std::this_thread::sleep_for(kRetry);
      continue;
    }
    std::optional<FormationOffer> offer = inbox.Wait();
    if (!offer.has_value()) continue;
    const absl::Status status =
        Follow(*std::move(offer), inbox, factory, follower, last_epoch);
    if (!status.ok() && !leaving.load())
      LogError("group", "lost",
               {{"epoch", last_epoch}, {"cause", status.message()}});
    if (Fatal(status)) return status;
  }
  return absl::OkStatus();
}

}  // namespace phalanx
