// Where the choices of a Generation run, and what is done when their group is
// lost.

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "common/reason.h"
#include "gateway/api/generation.h"

namespace phalanx {

void Generation::OnWorkerEnd(Leg& leg, const absl::Status& status) {
  const Loss loss = LossOf(status, /*resumed=*/leg.route > 1);
  Errands errands;
  std::shared_ptr<Leg> ended;
  {
    MutexLock lock(mutex_);
    tally_.WorkerEnded(status.code(),
                       shared_.clock.now_seconds() - leg.began_seconds);
    Slot& slot = slots_[leg.choice];
    ended = std::move(slot.leg);
    if (!end_.has_value() && !slot.finished) {
      if (status.ok())
        End(ReasonedError(absl::StatusCode::kInternal, "BUG",
                          "the worker ended without a finish"),
            errands);
      else if (loss == Loss::kNone)
        End(status, errands);
      else
        Lose(leg, slot, loss, status, errands);
    }
    errands.action = Next();
  }
  Do(errands);
  // Before this object may go: whoever waits for that may close the channel.
  errands = {};
  ended.reset();
  Leave();
}

void Generation::Lose(Leg& leg, Slot& slot, Loss loss,
                      const absl::Status& status, Errands& errands) {
  leg.group.Refresh();  // First, so that the router looks for another one.
  Reason reason = ReasonOf(status);
  lost_ = ReasonedError(
      absl::StatusCode::kUnavailable, "GROUP_LOST",
      absl::StrCat("group ", leg.group.name(), " was lost in epoch ", leg.epoch,
                   ": ", status.message()),
      {{"epoch", absl::StrCat(leg.epoch)},
       {"rank",
        reason.metadata.contains("rank") ? reason.metadata["rank"] : "0"},
       {"cause", reason.metadata.contains("cause")
                     ? reason.metadata["cause"]
                     : std::string(status.message())}});
  const Replay::Verdict verdict = replay_.OnLost(leg.route, loss, slot.trial);
  LogInfo("gateway", "group lost",
          {{"request_id", request_.request_id},
           {"choice", static_cast<int64_t>(leg.choice)},
           {"group", leg.group.name()},
           {"epoch", leg.epoch},
           {"cause", status.message()},
           {"innocent", loss == Loss::kInnocent},
           {"losses", replay_.losses()}});
  if (verdict == Replay::Verdict::kPoison)
    return End(ReasonedError(
                   absl::StatusCode::kInternal, "POISON",
                   "the group died twice: with this request among others, and "
                   "with it alone"),
               errands);
  if (verdict == Replay::Verdict::kExhausted)
    return GiveUp(ResumeResult::kExhausted, errands);
  if (leg.choice == 0) prompt_.Clear();
  if (leg.route == routes_ && route_.has_value()) {
    replay_.Leave(leg.group.name(), leg.epoch, shared_.clock.now_seconds());
    route_.reset();
  }
  slot.waiting = true;
  GoOn(errands);
}

void Generation::GiveUp(ResumeResult result, Errands& errands) {
  shared_.observer.OnResume(result);
  End(lost_, errands);
}

void Generation::OnGroupsChanged() {
  Errands errands;
  {
    MutexLock lock(mutex_);
    awaiting_ = false;
    GoOn(errands);
    errands.action = Next();
  }
  Do(errands);
}

void Generation::OnLookAgain() {
  Errands errands;
  {
    MutexLock lock(mutex_);
    looking_again_ = false;
    GoOn(errands);
    errands.action = Next();
  }
  Do(errands);
}

// The others come when the prompt's log-probabilities are known, which one
// choice is asked for and which go to the client before any token.
bool Generation::MayBegin(const Slot& slot) const {
  return slot.waiting && (prompt_done_ || &slot == &slots_.front());
}

// Whatever waits gets a leg, or ends if it needs none.
void Generation::GoOn(Errands& errands) {
  for (Slot& slot : slots_) {
    if (end_.has_value() || !slot.waiting || !prompt_done_) continue;
    if (const auto whole = slot.choice.Whole())
      FinishChoice(slot, *whole, errands);
  }
  const auto may_begin =
      [this](const Slot& slot)
          ABSL_NO_THREAD_SAFETY_ANALYSIS { return MayBegin(slot); };
  if (end_.has_value() ||
      std::none_of(slots_.begin(), slots_.end(), may_begin) ||
      (!route_.has_value() && !FindRoute(errands)))
    return;
  for (size_t i = 0; i < slots_.size(); ++i)
    if (MayBegin(slots_[i])) BeginLeg(i, errands);
}

// False: there is none yet, and this will be called again.
bool Generation::FindRoute(Errands& errands) {
  if (!std::exchange(awaiting_, true))
    shared_.router.Await(
        std::static_pointer_cast<Router::Waiter>(shared_from_this()));
  const double now = shared_.clock.now_seconds();
  absl::StatusOr<Router::Route> route = shared_.router.Pick(
      {.prompt_ids = {request_.worker.prompt_ids().data(),
                      static_cast<size_t>(request_.worker.prompt_ids_size())},
       .cache_salt = request_.worker.cache_salt(),
       .numerics_id = numerics_id_});
  if (route.ok()) {
    const v1::WorkerStatus& leader = route->view().leader();
    if (replay_.MayTake(route->group().name(), leader.epoch(), now) &&
        (leader.numerics_id() == numerics_id_ || replay_.MayDegrade(now))) {
      Settle(*std::move(route));
      return true;
    }
  }
  if (request_.max_time_ms.has_value() &&
      tally_.total_seconds() * 1000 >=
          static_cast<double>(*request_.max_time_ms)) {
    v1::WorkerFinished why;
    why.set_reason(v1::WorkerFinished::TIME_LIMIT);
    for (Slot& slot : slots_)
      if (slot.waiting) FinishChoice(slot, why, errands);
    return false;
  }
  if (replay_.WaitedTooLong(now)) {
    GiveUp(ResumeResult::kRefused, errands);
    return false;
  }
  if (!std::exchange(looking_again_, true))
    errands.look_again_seconds = replay_.NextLook(now);
  return false;
}

void Generation::Settle(Router::Route route) {
  const v1::WorkerStatus& leader = route.view().leader();
  ++routes_;
  if (routes_ > 1) {
    tally_.Moved(route.index());
    const bool same = leader.numerics_id() == numerics_id_;
    // Losses without a word in between are one to the client.
    if (!same || !notice_.has_value()) {
      notice_ = same ? v1::Notice::RESUMED : v1::Notice::DEGRADED;
      notice_detail_ = std::string(lost_.message());
      if (!same)
        absl::StrAppend(&notice_detail_, "; it began under numerics id ",
                        numerics_id_, "; ", leader.numerics_id(), " goes on");
    }
  }
  group_ = route.group().name();
  epoch_ = leader.epoch();
  numerics_id_ = leader.numerics_id();
  route_ = std::move(route);
  replay_.Arrived();
}

void Generation::BeginLeg(size_t index, Errands& errands) {
  Slot& slot = slots_[index];
  auto leg = std::make_shared<Leg>(*this, index, *route_);
  leg->route = routes_;
  leg->epoch = epoch_;
  leg->began_seconds = shared_.clock.now_seconds();
  leg->request = RequestOf(slot, index);
  slot.leg = leg;
  slot.waiting = false;
  ++calls_open_;
  errands.start.push_back(std::move(leg));
}

v1::WorkerGenerateRequest Generation::RequestOf(const Slot& slot,
                                                size_t index) const {
  const auto rest_ms =
      [this](double limit_seconds) ABSL_NO_THREAD_SAFETY_ANALYSIS {
        const double rest = limit_seconds - tally_.total_seconds();
        return std::max<int64_t>(1,
                                 static_cast<int64_t>(std::ceil(rest * 1000)));
      };
  v1::WorkerGenerateRequest request = request_.worker;
  request.set_epoch(epoch_);
  // The group may still hold what this stream lost in it.
  if (routes_ > 1) absl::StrAppend(request.mutable_request_id(), "-", routes_);
  request.set_choice_index(static_cast<int32_t>(index));
  const std::vector<int32_t>& emitted = slot.choice.emitted();
  request.mutable_emitted_ids()->Add(emitted.begin(), emitted.end());
  request.set_suspect(slot.trial.suspect);
  if (prompt_done_) request.set_prompt_logprobs(false);
  if (std::isfinite(arrival_.timeout_seconds))
    request.set_timeout_ms(rest_ms(arrival_.timeout_seconds));
  if (request_.max_time_ms.has_value())
    request.set_max_time_ms(
        rest_ms(static_cast<double>(*request_.max_time_ms) / 1000));
  return request;
}

}  // namespace phalanx
