#include "gateway/api/replay.h"

#include <algorithm>

#include "common/reason.h"

namespace phalanx {
namespace {

constexpr double kLookSeconds = 0.25;

}  // namespace

Loss LossOf(const absl::Status& worker_end, bool resumed) {
  const Reason reason = ReasonOf(worker_end);
  if (reason.word.empty()) {
    // Every refusal of a worker has a reason; what has none comes from gRPC.
    const bool broken =
        absl::IsUnavailable(worker_end) || absl::IsCancelled(worker_end) ||
        absl::IsUnknown(worker_end) || absl::IsInternal(worker_end);
    return broken ? Loss::kSuspect : Loss::kNone;
  }
  if (reason.word == "GROUP_LOST") {
    const auto in_step = reason.metadata.find("in_step");
    return in_step != reason.metadata.end() && in_step->second == "false"
               ? Loss::kInnocent
               : Loss::kSuspect;
  }
  const bool refused =
      reason.word == "STALE_EPOCH" ||
      (absl::IsUnavailable(worker_end) &&
       (reason.word == "DRAINING" || reason.word == "STARTING"));
  const bool queued =
      reason.word == "QUEUE_FULL" || reason.word == "QUEUE_TIMEOUT";
  return refused || (resumed && queued) ? Loss::kInnocent : Loss::kNone;
}

Replay::Verdict Replay::OnLost(int64_t route, Loss loss, Trial& trial) {
  if (route != route_) {
    route_ = route;
    spent_ = false;
    ++free_losses_;
  }
  bool counts = loss == Loss::kSuspect;
  // A suspect whose turn has not come was in no step.
  if (counts && trial.suspect && !trial.on_trial) counts = false;
  if (counts && trial.on_trial) return Verdict::kPoison;
  if (counts) trial.suspect = true;
  trial.on_trial = false;
  if (counts && !spent_) {
    spent_ = true;
    --free_losses_;
    ++losses_;
  }
  return losses_ > limits_.max_losses || free_losses_ > kMaxFreeLosses
             ? Verdict::kExhausted
             : Verdict::kGoOn;
}

void Replay::Leave(const std::string& group, uint64_t epoch, double now) {
  left_[group] = {.epoch = epoch, .seconds = now};
  if (!since_.has_value()) since_ = now;
}

bool Replay::MayTake(const std::string& group, uint64_t epoch,
                     double now) const {
  const auto left = left_.find(group);
  return left == left_.end() || epoch != left->second.epoch ||
         now >= left->second.seconds + limits_.same_epoch_seconds;
}

bool Replay::MayDegrade(double now) const {
  return since_.has_value() && now >= *since_ + limits_.degrade_seconds;
}

bool Replay::WaitedTooLong(double now) const {
  return since_.has_value() && now >= *since_ + limits_.wait_seconds;
}

double Replay::NextLook(double now) const {
  double next = kLookSeconds;
  const auto until = [&](double due) {
    if (due > now) next = std::min(next, due - now);
  };
  if (since_.has_value()) {
    until(*since_ + limits_.degrade_seconds);
    until(*since_ + limits_.wait_seconds);
  }
  for (const auto& [group, left] : left_)
    until(left.seconds + limits_.same_epoch_seconds);
  return next;
}

}  // namespace phalanx
