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

// The outcome label of the finished line, as the metrics spell it.
const char* OutcomeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kCancelled:
      return "cancelled";
    case absl::StatusCode::kDeadlineExceeded:
      return "deadline";
    case absl::StatusCode::kUnavailable:
      return ReasonOf(status).word == "GROUP_LOST" ? "group_lost" : "rejected";
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kAlreadyExists:
      return "rejected";
    default:
      return "error";
  }
}

}  // namespace

Generation::Generation(const Shared& shared, PreparedRequest request,
                       Ticket ticket, double arrived_seconds)
    : place_(shared.live),
      shared_(shared),
      request_(std::move(request)),
      arrived_seconds_(arrived_seconds),
      worker_(*this),
      text_(request_, shared.tokenizer),
      ticket_(std::move(ticket)) {}

grpc::ServerWriteReactor<grpc::ByteBuffer>* Generation::Begin(
    const Shared& shared, PreparedRequest request, Ticket ticket,
    double arrived_seconds) {
  auto generation = std::make_shared<Generation>(
      shared, std::move(request), std::move(ticket), arrived_seconds);
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
      EnqueueAccepted();
      worker_started_ = true;
      ++calls_open_;
    } else {
      End(std::move(entered));
    }
    action = Next();
  }
  Act(action);
  if (run) worker_.Start(shared_.group.leader(), request_.worker);
}

void Generation::EnqueueAccepted() {
  v1::GenerateEvent event;
  *event.mutable_accepted() = request_.accepted;
  event.mutable_accepted()->set_group(shared_.group.name());
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
  queue_.push_back(Serialize(event));
}

bool Generation::OnWorkerEvent(const v1::WorkerGenerateEvent& event) {
  const bool finished = event.has_finished();
  std::vector<v1::Delta> deltas = text_.Push(event.tokens());
  Action action;
  bool read_on;
  const bool stopped = text_.matched_stop().has_value();
  {
    MutexLock lock(mutex_);
    if (event.has_queue_seconds()) {
      queue_seconds_ = event.queue_seconds();
      cached_tokens_ = event.cached_tokens();
    }
    if (!end_.has_value()) {
      completion_tokens_ = text_.tokens();
      if (first_token_seconds_ == 0 && event.tokens_size() > 0)
        first_token_seconds_ = shared_.clock.now_seconds() - arrived_seconds_;
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
    outcome_ = "stop_string";
    finished.set_reason(v1::FINISH_REASON_STOP_STRING);
    finished.set_matched_stop_string(*text_.matched_stop());
  } else if (event.finished().reason() == v1::WorkerFinished::STOP) {
    outcome_ = "stop";
    finished.set_reason(v1::FINISH_REASON_STOP);
    finished.set_matched_stop_id(event.finished().stop_id());
  } else {
    outcome_ = "length";
    finished.set_reason(v1::FINISH_REASON_LENGTH);
  }
  Enqueue(std::move(out));

  const double total = shared_.clock.now_seconds() - arrived_seconds_;
  const double decode = total - first_token_seconds_;
  const int64_t tokens = text_.tokens();
  v1::GenerateEvent last;
  v1::Summary& summary = *last.mutable_summary();
  summary.set_prompt_tokens(request_.worker.prompt_ids_size());
  summary.set_cached_tokens(cached_tokens_);
  summary.set_completion_tokens(tokens);
  summary.set_reasoning_tokens(text_.reasoning_tokens());
  summary.set_queue_seconds(queue_seconds_);
  summary.set_time_to_first_token_seconds(first_token_seconds_);
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
      absl::StrCat("group ", shared_.group.name(), " was lost in epoch ",
                   request_.worker.epoch(), ": ", status.message()),
      {{"epoch", absl::StrCat(request_.worker.epoch())},
       {"rank", "0"},
       {"cause", std::string(status.message())}});
}

void Generation::OnWorkerEnd(const absl::Status& status) {
  Action action;
  {
    MutexLock lock(mutex_);
    if (!end_.has_value()) {
      End(status.ok() ? ReasonedError(absl::StatusCode::kInternal, "BUG",
                                      "the worker ended without a finish")
                      : LostError(status));
    }
    action = Next();
  }
  if (absl::IsUnavailable(status) || absl::IsFailedPrecondition(status))
    shared_.group.Refresh();
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
    if (!ok) queue_.clear();
    resume = worker_paused_ && queue_.size() < kMaxQueued / 2;
    if (resume) worker_paused_ = false;
    action = Next();
  }
  if (resume) worker_.Resume();
  Act(action);
}

void Generation::OnCancel() {
  EndEarly(CancelledBy("DISCONNECTED", "the client went away"));
}

bool Generation::CancelByClient() {
  return EndEarly(CancelledBy("CLIENT", "by a call of Cancel"));
}

// False if it has ended already.
bool Generation::EndEarly(absl::Status status) {
  Action action;
  bool cancel;
  bool resume;
  {
    MutexLock lock(mutex_);
    if (end_.has_value()) return false;
    End(std::move(status));
    queue_.clear();
    cancel = worker_started_;
    resume = std::exchange(worker_paused_, false);
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
  LogEnd();
}

void Generation::LogEnd() {
  const Reason reason = ReasonOf(*end_);
  LogInfo("gateway", "request finished",
          {{"request_id", request_.request_id},
           {"outcome", outcome_},
           {"code", absl::StatusCodeToString(end_->code())},
           {"reason", reason.word},
           {"prompt_tokens", request_.worker.prompt_ids_size()},
           {"completion_tokens", completion_tokens_},
           {"queue_seconds", queue_seconds_},
           {"ttft_seconds", first_token_seconds_},
           {"total_seconds", shared_.clock.now_seconds() - arrived_seconds_},
           {"group", shared_.group.name()},
           {"epoch", request_.worker.epoch()}});
}

Generation::Action Generation::Next() {
  if (writing_ || finish_sent_) return Action::kNone;
  if (!queue_.empty()) {
    in_flight_ = std::move(queue_.front());
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
