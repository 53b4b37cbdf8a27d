#include "gateway/api/generation.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/grpc_status.h"
#include "common/log.h"
#include "common/reason.h"

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
                       Ticket ticket, Router::Route route,
                       const Arrival& arrival)
    : place_(shared.live),
      shared_(shared),
      request_(std::move(request)),
      route_(std::move(route)),
      arrival_(arrival),
      worker_(*this),
      text_(request_, shared.tokenizer),
      ticket_(std::move(ticket)),
      tally_(shared.observer, shared.clock,
             {.priority = request_.worker.priority(),
              .arrived_seconds = arrival.seconds,
              .group = route_.index()},
             request_.worker.prompt_ids_size()) {}

grpc::ServerWriteReactor<grpc::ByteBuffer>* Generation::Begin(
    const Shared& shared, PreparedRequest request, Ticket ticket,
    Router::Route route, const Arrival& arrival) {
  auto generation = std::make_shared<Generation>(
      shared, std::move(request), std::move(ticket), std::move(route), arrival);
  generation->Start();
  return generation.get();
}

void Generation::Start() {
  Action action;
  bool run;
  {
    // Held while the registry learns of the stream, so that no Cancel comes
    // before all is in place.
    MutexLock lock(mutex_);
    self_ = shared_from_this();
    absl::Status entered =
        shared_.active.Add(request_.request_id, request_.tag, weak_from_this());
    run = registered_ = entered.ok();
    if (run) {
      tally_.Begin();
      EnqueueAccepted();
      worker_started_ = true;
      ++calls_open_;
    } else {
      End(std::move(entered));
    }
    action = Next();
  }
  Act(action);
  if (run) worker_.Start(route_.group().leader(), request_.worker);
}

void Generation::EnqueueAccepted() {
  v1::GenerateEvent event;
  *event.mutable_accepted() = request_.accepted;
  event.mutable_accepted()->set_group(route_.group().name());
  Enqueue(std::move(event));
  if (!request_.truncated) return;
  v1::GenerateEvent notice;
  notice.mutable_notice()->set_kind(v1::Notice::TRUNCATED);
  notice.mutable_notice()->set_detail(
      absl::StrCat("max_tokens was cut to ", request_.worker.max_tokens(),
                   ", the rest of the context"));
  Enqueue(std::move(notice));
}

void Generation::Enqueue(v1::GenerateEvent event) {
  event.set_request_id(request_.request_id);
  event.set_seq(++seq_);
  queue_.push_back({.bytes = Serialize(event),
                    .delta = event.has_delta(),
                    .tokens = tally_.tokens()});
  tally_.Buffered(static_cast<int64_t>(queue_.back().bytes.Length()));
}

bool Generation::OnWorkerEvent(const v1::WorkerGenerateEvent& event) {
  const bool finished = event.has_finished();
  std::vector<v1::Delta> deltas = text_.Push(event.tokens());
  Action action;
  bool read_on;
  const bool stopped = text_.matched_stop().has_value();
  {
    MutexLock lock(mutex_);
    if (end_.has_value()) {
      tally_.Late(event.tokens_size());
    } else {
      if (event.has_queue_seconds())
        tally_.Admitted(event.queue_seconds(), event.cached_tokens());
      tally_.Tokens(text_.tokens(), text_.reasoning_tokens());
      for (v1::Delta& delta : deltas) {
        v1::GenerateEvent out;
        *out.mutable_delta() = std::move(delta);
        Enqueue(std::move(out));
      }
      if (finished || stopped) EnqueueEnd(event);
    }
    action = Next();
    read_on = queue_.size() < kMaxQueued || end_.has_value();
    if (!read_on) {
      worker_.Pause();
      worker_paused_ = true;
      tally_.Paused();
    }
  }
  Act(action);
  // The worker's call is open until OnWorkerEnd, so this object lives.
  if (stopped && !finished) worker_.Cancel();
  return read_on;
}

void Generation::EnqueueEnd(const v1::WorkerGenerateEvent& event) {
  for (v1::Delta& delta : text_.Flush()) {
    v1::GenerateEvent out;
    *out.mutable_delta() = std::move(delta);
    Enqueue(std::move(out));
  }
  v1::GenerateEvent out;
  v1::Finished& finished = *out.mutable_finished();
  if (text_.matched_stop().has_value()) {
    outcome_ = RequestOutcome::kStopString;
    finished.set_reason(v1::FINISH_REASON_STOP_STRING);
    finished.set_matched_stop_string(*text_.matched_stop());
  } else if (event.finished().reason() == v1::WorkerFinished::STOP) {
    outcome_ = RequestOutcome::kStop;
    finished.set_reason(v1::FINISH_REASON_STOP);
    finished.set_matched_stop_id(event.finished().stop_id());
  } else {
    outcome_ = RequestOutcome::kLength;
    finished.set_reason(v1::FINISH_REASON_LENGTH);
  }
  Enqueue(std::move(out));

  const double total = tally_.total_seconds();
  const double decode = total - tally_.first_token_seconds();
  const int64_t tokens = text_.tokens();
  v1::GenerateEvent last;
  v1::Summary& summary = *last.mutable_summary();
  summary.set_prompt_tokens(request_.worker.prompt_ids_size());
  summary.set_cached_tokens(tally_.cached_tokens());
  summary.set_completion_tokens(tokens);
  summary.set_reasoning_tokens(text_.reasoning_tokens());
  summary.set_queue_seconds(tally_.queue_seconds());
  summary.set_time_to_first_token_seconds(tally_.first_token_seconds());
  summary.set_decode_seconds(decode);
  summary.set_total_seconds(total);
  summary.set_tokens_per_second(
      tokens > 1 && decode > 0 ? static_cast<double>(tokens - 1) / decode : 0);
  Enqueue(std::move(last));
  End(absl::OkStatus());
}

// What a worker's status means to a client. A transport that broke, or an epoch
// that is over, is a lost group.
absl::Status Generation::LostError(const absl::Status& status) const {
  const std::string word = ReasonOf(status).word;
  // Every refusal of a worker has a reason; what has none comes from gRPC.
  const bool broken =
      word.empty() && (absl::IsUnavailable(status) ||
                       absl::IsCancelled(status) || absl::IsUnknown(status));
  if (!broken && word != "STALE_EPOCH") return status;
  return ReasonedError(
      absl::StatusCode::kUnavailable, "GROUP_LOST",
      absl::StrCat("group ", route_.group().name(), " was lost in epoch ",
                   request_.worker.epoch(), ": ", status.message()),
      {{"epoch", absl::StrCat(request_.worker.epoch())},
       {"rank", "0"},
       {"cause", std::string(status.message())}});
}

void Generation::OnWorkerEnd(const absl::Status& status) {
  Action action;
  {
    MutexLock lock(mutex_);
    tally_.WorkerEnded(status.code());
    if (!end_.has_value()) {
      End(status.ok() ? ReasonedError(absl::StatusCode::kInternal, "BUG",
                                      "the worker ended without a finish")
                      : LostError(status));
    }
    action = Next();
  }
  if (absl::IsUnavailable(status) || absl::IsFailedPrecondition(status))
    route_.group().Refresh();
  Act(action);
  Leave();
}

void Generation::OnWriteDone(bool ok) {
  if (!ok) EndEarly(CancelledBy("DISCONNECTED", "the client went away"));
  Action action;
  bool resume;
  {
    MutexLock lock(mutex_);
    writing_ = false;
    if (!ok) ClearQueue();
    resume = worker_paused_ && queue_.size() < kMaxQueued / 2;
    if (resume) {
      worker_paused_ = false;
      tally_.Resumed();
    }
    action = Next();
  }
  if (resume) worker_.Resume();
  Act(action);
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

void Generation::ClearQueue() {
  for (const Queued& queued : queue_)
    tally_.Buffered(-static_cast<int64_t>(queued.bytes.Length()));
  queue_.clear();
}

bool Generation::CancelByClient() {
  return EndEarly(CancelledBy("CLIENT", "by a call of Cancel"));
}

bool Generation::EndForDrain() {
  return EndEarly(ReasonedError(absl::StatusCode::kUnavailable, "DRAINING",
                                "this gateway is going away"));
}

// False if it has ended already.
bool Generation::EndEarly(absl::Status status) {
  Action action;
  bool cancel;
  bool resume;
  {
    MutexLock lock(mutex_);
    if (end_.has_value()) return false;
    tally_.Dropped();
    resume = std::exchange(worker_paused_, false);
    if (resume) tally_.Resumed();
    End(std::move(status));
    ClearQueue();
    cancel = worker_started_;
    action = Next();
  }
  if (cancel) worker_.Cancel();
  if (resume) worker_.Resume();
  Act(action);
  return true;
}

void Generation::End(absl::Status status) {
  if (!status.ok()) outcome_ = OutcomeOf(status);
  end_ = std::move(status);
  tally_.End(outcome_, *end_);
  LogEnd();
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
           {"group", route_.group().name()},
           {"epoch", request_.worker.epoch()}});
}

Generation::Action Generation::Next() {
  if (writing_ || finish_sent_) return Action::kNone;
  if (!queue_.empty()) {
    Queued& next = queue_.front();
    tally_.Buffered(-static_cast<int64_t>(next.bytes.Length()));
    if (next.delta) tally_.Written(next.tokens);
    in_flight_ = std::move(next.bytes);
    queue_.pop_front();
    writing_ = true;
    return Action::kWrite;
  }
  if (!end_.has_value()) return Action::kNone;
  finish_ = ToGrpc(*end_);
  finish_sent_ = true;
  if (registered_) shared_.active.Remove(request_.request_id);
  ticket_ = Ticket();
  return Action::kFinish;
}

// Outside the lock, since gRPC may call back from in here.
void Generation::Act(Action action) {
  switch (action) {
    case Action::kNone:
      return;
    case Action::kWrite:
      return StartWrite(&in_flight_);
    case Action::kFinish:
      return Finish(finish_);
  }
}

void Generation::OnDone() {
  bool cancel;
  {
    MutexLock lock(mutex_);
    cancel = worker_started_;
  }
  // A worker that never ends a stream which it has finished must not keep it.
  if (cancel) worker_.Cancel();
  Leave();
}

// Last in the last callback of each call; frees the object after the second.
void Generation::Leave() {
  std::shared_ptr<Generation> last;
  {
    MutexLock lock(mutex_);
    if (--calls_open_ == 0) last = std::move(self_);
  }
}

}  // namespace phalanx
