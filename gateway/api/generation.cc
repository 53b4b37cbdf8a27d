#include "gateway/api/generation.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/grpc_status.h"
#include "common/log.h"
#include "common/reason.h"
#include "gateway/api/later.h"

namespace phalanx {
namespace {

grpc::ByteBuffer Serialize(const v1::GenerateEvent& event) {
  grpc::ByteBuffer buffer;
  bool own = false;
  grpc::SerializationTraits<v1::GenerateEvent>::Serialize(event, &buffer, &own);
  return buffer;
}

absl::Status CancelledBy(const char* reason, const char* who) {
  return ReasonedError(absl::StatusCode::kCancelled, reason,
                       absl::StrCat("cancelled: ", who));
}

// A client's own clock runs out before ours learns of it, by the time that its
// call took to get here and what gRPC rounds the timeout up by, a hundredth: an
// end this near to the deadline is the deadline's.
bool IsDue(double elapsed_seconds, double timeout_seconds) {
  return elapsed_seconds >= 0.99 * timeout_seconds - 0.25;
}

}  // namespace

Generation::Generation(const Shared& shared, PreparedRequest request,
                       Origin origin, Ticket ticket, Router::Route route,
                       const Arrival& arrival)
    : place_(shared.live),
      shared_(shared),
      request_(std::move(request)),
      origin_(std::move(origin)),
      arrival_(arrival),
      ticket_(std::move(ticket)),
      queue_(request_.request_id),
      tally_(shared.observer, shared.clock,
             {.priority = request_.worker.priority(),
              .arrived_seconds = arrival.seconds,
              .group = route.index()},
             request_.worker.prompt_ids_size()),
      numerics_id_(request_.accepted.numerics_id()),
      replay_(shared.limits) {
  for (int i = 0; i < request_.n; ++i)
    slots_.emplace_back(request_, shared.tokenizer, i);
  Settle(std::move(route));
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* Generation::Begin(
    const Shared& shared, PreparedRequest request, Origin origin, Ticket ticket,
    Router::Route route, const Arrival& arrival) {
  auto generation = std::make_shared<Generation>(
      shared, std::move(request), std::move(origin), std::move(ticket),
      std::move(route), arrival);
  generation->Start();
  return generation.get();
}

void Generation::Start() {
  Errands errands;
  {
    // Held while the registry learns of the stream, so that no Cancel comes
    // before all is in place.
    MutexLock lock(mutex_);
    self_ = shared_from_this();
    absl::Status entered =
        shared_.active.Add(request_.request_id, request_.tag, weak_from_this());
    registered_ = entered.ok();
    if (registered_) {
      tally_.Begin();
      RestoreChoices();
      GoOn(errands);
    } else {
      End(std::move(entered), errands);
    }
    errands.action = Next();
  }
  Do(errands);
}

void Generation::OnWriteDone(bool ok) {
  if (!ok) OnCancel();  // A write may be the first to know.
  Errands errands;
  {
    MutexLock lock(mutex_);
    writing_ = false;
    if (!ok) {
      tally_.Buffered(-queue_.bytes());
      queue_.Clear();
    }
    if (queue_.size() < kMaxQueued / 2) ResumeLegs(errands);
    errands.action = Next();
  }
  Do(errands);
}

void Generation::OnCancel() {
  absl::Status gone;
  {
    MutexLock lock(mutex_);
    gone = GoneError();
  }
  EndEarly(std::move(gone));
}

// gRPC does not say which: the client left, or its deadline passed.
absl::Status Generation::GoneError() {
  if (!IsDue(tally_.total_seconds(), arrival_.timeout_seconds))
    return CancelledBy("DISCONNECTED", "the client went away");
  const char* const where = !tally_.admitted()     ? "IN_QUEUE"
                            : tally_.tokens() == 0 ? "IN_PREFILL"
                                                   : "IN_DECODE";
  return ReasonedError(
      absl::StatusCode::kDeadlineExceeded, where,
      absl::StrCat("the deadline of ", arrival_.timeout_seconds,
                   " s passed after ", tally_.tokens(), " tokens"),
      {{"tokens_done", absl::StrCat(tally_.tokens())}});
}

bool Generation::CancelByClient() {
  return EndEarly(CancelledBy("CLIENT", "by a call of Cancel"));
}

bool Generation::EndForDrain() {
  return EndEarly(ReasonedError(
      absl::StatusCode::kUnavailable, "DRAINING",
      "this gateway is going away; another one goes on with the stream"));
}

// False if it has ended already.
bool Generation::EndEarly(absl::Status status) {
  Errands errands;
  {
    MutexLock lock(mutex_);
    if (end_.has_value()) return false;
    tally_.Dropped();
    End(std::move(status), errands);
    tally_.Buffered(-queue_.bytes());
    queue_.Clear();
    errands.action = Next();
  }
  Do(errands);
  return true;
}

// What waits for the client is still delivered before it; workers have nothing
// left to do.
void Generation::End(absl::Status status, Errands& errands) {
  // A stream that a drain hands over was not turned away: it lost its place.
  if (!status.ok())
    outcome_ = ReasonOf(status).word == "DRAINING" ? RequestOutcome::kGroupLost
                                                   : OutcomeOf(status);
  end_ = std::move(status);
  tally_.End(outcome_, *end_);
  LogEnd();
  for (const Slot& slot : slots_)
    if (slot.leg != nullptr && !slot.finished)
      errands.cancel.push_back(slot.leg);
  ResumeLegs(errands);
}

void Generation::LogEnd() {
  const Reason reason = ReasonOf(*end_);
  LogInfo("gateway", "request finished",
          {{"request_id", request_.request_id},
           {"outcome", OutcomeName(outcome_)},
           {"code", absl::StatusCodeToString(end_->code())},
           {"reason", reason.word},
           {"prompt_tokens", request_.worker.prompt_ids_size()},
           {"completion_tokens", tally_.tokens()},
           {"queue_seconds", tally_.queue_seconds()},
           {"ttft_seconds", tally_.first_token_seconds()},
           {"total_seconds", tally_.total_seconds()},
           {"group", group_},
           {"epoch", epoch_},
           {"resumes", resumes_}});
}

void Generation::ResumeLegs(Errands& errands) {
  if (!std::exchange(paused_, false)) return;
  tally_.Resumed();
  for (const Slot& slot : slots_) {
    if (slot.leg == nullptr || !std::exchange(slot.leg->paused, false))
      continue;
    errands.resume.push_back(slot.leg);
  }
}

std::string Generation::Token() const {
  ResumePoint point;
  point.request_digest = origin_.request_digest;
  point.numerics_id = numerics_id_;
  point.seed = request_.worker.seed();
  point.prompt_sent = prompt_sent_;
  for (const Slot& slot : slots_) point.choices.push_back(slot.choice.sent());
  return shared_.key.Seal(point);
}

// The token says what was handed to gRPC, so this is called when that is all.
absl::Status Generation::WithToken(const absl::Status& status) const {
  Reason reason = ReasonOf(status);
  if (!absl::IsUnavailable(status) ||
      (reason.word != "GROUP_LOST" && reason.word != "DRAINING"))
    return status;
  reason.metadata["resume_token"] = Token();
  return ReasonedError(status.code(), reason.word, status.message(),
                       reason.metadata);
}

Generation::Action Generation::Next() {
  if (writing_ || finish_sent_) return Action::kNone;
  if (!queue_.empty()) {
    const EventQueue::Entry next = queue_.Pop();
    tally_.Buffered(-next.bytes);
    if (next.event.has_delta()) {
      tally_.Written(next.tokens);
      const v1::Delta& delta = next.event.delta();
      slots_[delta.index()].choice.Sent(delta);
    }
    prompt_sent_ = prompt_sent_ || next.event.has_prompt();
    in_flight_ = Serialize(next.event);
    more_follows_ = !queue_.empty();
    writing_ = true;
    return Action::kWrite;
  }
  if (!end_.has_value()) return Action::kNone;
  finish_ = ToGrpc(WithToken(*end_));
  finish_sent_ = true;
  if (registered_) shared_.active.Remove(request_.request_id);
  ticket_ = Ticket();
  return Action::kFinish;
}

// Outside the lock, since gRPC may call back from in here; the client's call
// last, since its end may be this object's.
void Generation::Do(const Errands& errands) {
  for (const std::shared_ptr<Leg>& leg : errands.start)
    leg->stream.Start(leg->group.leader(), std::move(leg->request));
  for (const std::shared_ptr<Leg>& leg : errands.cancel) leg->stream.Cancel();
  for (const std::shared_ptr<Leg>& leg : errands.resume) leg->stream.Resume();
  if (errands.look_again_seconds > 0)
    CallLater(errands.look_again_seconds, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->OnLookAgain();
    });
  switch (errands.action) {
    case Action::kNone:
      return;
    case Action::kWrite:
      return more_follows_ ? StartWrite(&in_flight_,
                                        grpc::WriteOptions().set_buffer_hint())
                           : StartWrite(&in_flight_);
    case Action::kFinish:
      return Finish(finish_);
  }
}

void Generation::OnDone() {
  Errands errands;
  {
    // A worker that never ends a stream which it has finished must not keep it.
    MutexLock lock(mutex_);
    for (const Slot& slot : slots_)
      if (slot.leg != nullptr) errands.cancel.push_back(slot.leg);
    ResumeLegs(errands);
  }
  Do(errands);
  errands = {};
  Leave();
}

// Last in the last callback of each call; frees the object after the last.
void Generation::Leave() {
  std::shared_ptr<Generation> last;
  {
    MutexLock lock(mutex_);
    if (--calls_open_ == 0) last = std::move(self_);
  }
}

}  // namespace phalanx
