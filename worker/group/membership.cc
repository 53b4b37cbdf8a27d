#include "worker/group/membership.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/log.h"
#include "common/reason.h"

namespace phalanx {
namespace {

absl::Status Mismatch(int rank, const char* what, const std::string& theirs,
                      const std::string& ours) {
  return ReasonedError(absl::StatusCode::kFailedPrecondition,
                       "VERSION_MISMATCH",
                       absl::StrCat(what, " of rank ", rank, " is ", theirs,
                                    "; rank 0 has ", ours));
}

absl::Status LostError(int rank, const char* cause) {
  return ReasonedError(absl::StatusCode::kUnavailable, "GROUP_LOST",
                       absl::StrCat("rank ", rank, " is gone: ", cause),
                       {{"rank", absl::StrCat(rank)}, {"cause", cause}});
}

}  // namespace

Membership::Membership(const RankIdentity& own)
    : own_(own), members_(own.tp_size) {
  CHECK(own.rank == 0);
}

int64_t Membership::HeartbeatOpened(int rank) {
  MutexLock lock(mutex_);
  if (rank < 1 || rank >= own_.tp_size) return 0;
  Member& member = members_[rank];
  if (member.stream != 0) LostLocked(rank, "its process was replaced");
  member = {.stream = ++streams_, .joined = false, .identity = {}};
  return member.stream;
}

bool Membership::HeartbeatCame(int rank, int64_t stream) {
  MutexLock lock(mutex_);
  if (members_[rank].stream != stream) return false;
  members_[rank].silence.Heard();
  return true;
}

void Membership::HeartbeatClosed(int rank, int64_t stream) {
  MutexLock lock(mutex_);
  if (rank < 1 || rank >= own_.tp_size) return;
  if (members_[rank].stream != stream) return;  // Replaced by a newer one.
  LostLocked(rank, "connection closed");
  members_[rank] = {};
}

void Membership::Tick() {
  MutexLock lock(mutex_);
  for (int rank = 1; rank < own_.tp_size; ++rank) {
    if (members_[rank].stream == 0 || !members_[rank].silence.Tick()) continue;
    LostLocked(rank, "no heartbeat for 3 s");
    members_[rank] = {};
  }
}

void Membership::LostLocked(int rank, const char* cause) {
  const absl::Status lost = LostError(rank, cause);
  LogWarning("group", "rank lost", {{"lost_rank", rank}, {"cause", cause}});
  if (lost_.ok()) lost_ = lost;
  if (active_ != nullptr) active_->Abort(lost);
}

absl::Status Membership::Join(const RankIdentity& identity,
                              uint64_t last_epoch) {
  const int rank = identity.rank;
  if (identity.tp_size != own_.tp_size)
    return Mismatch(rank, "tp_size", absl::StrCat(identity.tp_size),
                    absl::StrCat(own_.tp_size));
  if (identity.version != own_.version)
    return Mismatch(rank, "version", identity.version, own_.version);
  if (identity.model_digest != own_.model_digest)
    return Mismatch(rank, "model digest", identity.model_digest,
                    own_.model_digest);
  if (identity.numerics_id != own_.numerics_id)
    return Mismatch(rank, "numerics id", identity.numerics_id,
                    own_.numerics_id);
  if (identity.slice_plan != own_.slice_plan)
    return Mismatch(
        rank, "slice plan", identity.slice_plan,
        absl::StrCat(own_.slice_plan,
                     "; give every rank the same --moe-mode (auto follows "
                     "--memory-budget), --offload-bank, --max-running, "
                     "--max-model-len and --prefill-chunk"));
  // The pools of a group are the smallest that any rank offers, and must still
  // serve all that rank 0 admits.
  if (identity.kv_blocks < 1 || identity.state_slots < own_.state_slots)
    return Mismatch(rank, "kv_blocks/state_slots",
                    absl::StrCat(identity.kv_blocks, "/", identity.state_slots),
                    absl::StrCat(own_.kv_blocks, "/", own_.state_slots));
  MutexLock lock(mutex_);
  if (rank < 1 || rank >= own_.tp_size || members_[rank].stream == 0)
    return ReasonedError(absl::StatusCode::kFailedPrecondition, "WRONG_STATE",
                         absl::StrCat("rank ", rank,
                                      " has no open heartbeat; must be one of "
                                      "1..",
                                      own_.tp_size - 1, " with one"));
  members_[rank].joined = true;
  members_[rank].identity = identity;
  last_epoch_ = std::max(last_epoch_, last_epoch);
  changed_.SignalAll();
  return absl::OkStatus();
}

bool Membership::WholeLocked() const {
  return std::all_of(members_.begin() + 1, members_.end(),
                     [](const Member& m) { return m.joined; });
}

absl::StatusOr<std::vector<RankIdentity>> Membership::WaitWhole() {
  MutexLock lock(mutex_);
  changed_.Wait(mutex_, [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return stopped_ || WholeLocked();
  });
  if (stopped_) return absl::CancelledError("shutting down");
  std::vector<RankIdentity> others;
  for (int rank = 1; rank < own_.tp_size; ++rank) {
    members_[rank].joined = false;
    others.push_back(members_[rank].identity);
  }
  lost_ = absl::OkStatus();
  return others;
}

uint64_t Membership::NextEpoch(uint64_t floor) {
  MutexLock lock(mutex_);
  last_epoch_ = std::max(last_epoch_, floor) + 1;
  return last_epoch_;
}

void Membership::SetActive(Collective* collective) {
  MutexLock lock(mutex_);
  active_ = collective;
  if (active_ != nullptr && !lost_.ok()) active_->Abort(lost_);
}

absl::Status Membership::CalledOff() const {
  MutexLock lock(mutex_);
  return stopped_ ? absl::UnavailableError("shutting down") : lost_;
}

void Membership::AbortActive(
    const std::function<absl::Status(const Collective&)>& reason) {
  MutexLock lock(mutex_);
  if (active_ != nullptr) active_->Abort(reason(*active_));
}

std::vector<int> Membership::Missing() const {
  MutexLock lock(mutex_);
  std::vector<int> missing;
  for (int rank = 1; rank < own_.tp_size; ++rank)
    if (members_[rank].stream == 0) missing.push_back(rank);
  return missing;
}

void Membership::Stop() {
  MutexLock lock(mutex_);
  stopped_ = true;
  changed_.SignalAll();
}

}  // namespace phalanx
