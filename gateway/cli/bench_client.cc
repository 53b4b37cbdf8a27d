#include "gateway/cli/bench_client.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/grpc_status.h"
#include "common/reason.h"

namespace phalanx {
namespace {

constexpr double kProgressPeriodSeconds = 0.1;

std::chrono::nanoseconds Nanoseconds(double seconds) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(std::max(seconds, 0.0)));
}

// "UNAVAILABLE/GROUP_LOST".
std::string WordOf(const absl::Status& status) {
  const Reason reason = ReasonOf(status);
  return absl::StrCat(absl::StatusCodeToString(status.code()),
                      reason.word.empty() ? "" : "/", reason.word);
}

}  // namespace

// One request, from its call to its end. Owns itself; the client forgets it in
// OnEnd.
class BenchClient::Stream final
    : public grpc::ClientReadReactor<v1::GenerateEvent> {
 public:
  Stream(BenchClient& client, int64_t index, double due_seconds,
         v1::GenerateRequest request,
         std::optional<int64_t> cancel_after_tokens,
         std::shared_ptr<grpc::ClientContext> context)
      : client_(client),
        index_(index),
        cancel_after_tokens_(cancel_after_tokens),
        context_(std::move(context)),
        request_(std::move(request)) {
    sample_.due_seconds = due_seconds;
  }

  void Begin() {
    client_.stub_.async()->Generate(context_.get(), &request_, this);
    StartRead(&event_);
    StartCall();
  }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return;
    if (event_.has_delta()) AddTokens(event_.delta().token_ids_size());
    if (event_.has_accepted()) {
      sample_.prompt_tokens = event_.accepted().prompt_tokens();
      asked_tokens_ = event_.accepted().max_tokens();
    }
    if (event_.has_summary()) {
      summary_ = true;
      sample_.cached_tokens = event_.summary().cached_tokens();
      sample_.resumes = event_.summary().resumes();
      sample_.preemptions = event_.summary().preemptions();
    }
    if (cancel_after_tokens_ && !cancelled_ &&
        sample_.output_tokens >= *cancel_after_tokens_) {
      cancelled_ = true;
      client_.Cancel(request_.request_id());
    }
    StartRead(&event_);
  }

  void OnDone(const grpc::Status& status) override {
    sample_.end_seconds = client_.clock_.now_seconds();
    SetEnd(FromGrpc(status));
    // What is gRPC's goes before anybody is told.
    BenchClient& client = client_;
    const int64_t index = index_;
    BenchSample sample = std::move(sample_);
    delete this;
    client.OnEnd(index, std::move(sample));
  }

  void AddTokens(int64_t count) {
    if (count == 0) return;
    const double now = client_.clock_.now_seconds();
    if (sample_.output_tokens == 0)
      sample_.first_token_seconds = now;
    else
      sample_.gaps_seconds.push_back(
          static_cast<float>(now - sample_.last_token_seconds));
    sample_.gaps_seconds.resize(sample_.gaps_seconds.size() +
                                static_cast<size_t>(count - 1));
    sample_.last_token_seconds = now;
    sample_.output_tokens += count;
    client_.OnTokens(count);
  }

  void SetEnd(const absl::Status& status) {
    if (status.ok() && IsWhole()) return;
    if (cancelled_ && absl::IsCancelled(status) &&
        ReasonOf(status).word == "CLIENT") {
      sample_.end = BenchSample::End::kCancelled;
      return;
    }
    sample_.end = BenchSample::End::kFailed;
    sample_.error = status.ok() ? "INCOMPLETE" : WordOf(status);
    sample_.error_message =
        status.ok()
            ? absl::StrCat("the stream ended OK with ", sample_.output_tokens,
                           " tokens and ", summary_ ? "a" : "no",
                           " summary; asked for ", asked_tokens_)
            : std::string(status.message());
  }

  // Whether a stream that ended OK brought what was asked for.
  bool IsWhole() const {
    if (!summary_ || sample_.output_tokens > asked_tokens_) return false;
    return sample_.output_tokens == asked_tokens_ ||
           !client_.settings_.ignore_eos;
  }

  BenchClient& client_;
  const int64_t index_;
  const std::optional<int64_t> cancel_after_tokens_;
  const std::shared_ptr<grpc::ClientContext> context_;
  const v1::GenerateRequest request_;
  v1::GenerateEvent event_;
  BenchSample sample_;
  int64_t asked_tokens_ = 0;
  bool summary_ = false;
  bool cancelled_ = false;  // It was asked for.
};

// One call of Cancel. Owns itself.
class BenchClient::CancelCall {
 public:
  CancelCall(BenchClient& client, const std::string& request_id)
      : client_(client) {
    request_.add_request_ids(request_id);
    context_.set_deadline(std::chrono::system_clock::now() +
                          Nanoseconds(client.settings_.timeout_seconds));
  }

  void Begin() {
    client_.stub_.async()->Cancel(&context_, &request_, &response_,
                                  [this](const grpc::Status& grpc_status) {
                                    const absl::Status status =
                                        FromGrpc(grpc_status);
                                    BenchClient& client = client_;
                                    delete this;
                                    client.OnCancelDone(status);
                                  });
  }

 private:
  BenchClient& client_;
  grpc::ClientContext context_;
  v1::CancelRequest request_;
  v1::CancelResponse response_;
};

BenchClient::BenchClient(v1::Inference::Stub& stub, const Clock& clock,
                         const BenchWorkload& workload,
                         const BenchSettings& settings)
    : stub_(stub),
      clock_(clock),
      workload_(workload),
      settings_(settings),
      id_(absl::StrFormat("bench-%08x%08x", std::random_device()(),
                          std::random_device()())) {}

BenchRecord BenchClient::Run(const BenchLoad& load, int64_t first_index,
                             uint64_t seed, const OnProgress& on_progress) {
  const double start = clock_.now_seconds();
  const double end = start + load.duration_seconds;
  {
    MutexLock lock(mutex_);
    progress_ = {};
    record_ = {};
  }
  ArrivalTimes arrivals(seed, load.rate.value_or(1));
  const auto stopped = [&]()
                           ABSL_NO_THREAD_SAFETY_ANALYSIS { return stopped_; };
  const auto has_room = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return stopped_ || progress_.running < load.concurrency;
  };
  const auto all_ended = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return contexts_.empty() && cancels_ == 0;
  };
  double shown = start;
  const OnProgress show = [&](BenchProgress progress) {
    const double now = clock_.now_seconds();
    if (now - shown < kProgressPeriodSeconds) return;
    shown = now;
    progress.seconds = now - start;
    on_progress(progress);
  };
  for (int64_t i = 0; i < load.requests; ++i) {
    double due = 0;
    if (load.rate) {
      due = start + arrivals.Next();
      if (due >= end) break;
      WaitUntil(stopped, due, show);
    }
    WaitUntil(has_room, end, show);
    if (!load.rate) due = clock_.now_seconds();
    if (this->stopped() || clock_.now_seconds() >= end) break;
    Start(first_index + i, due);
  }
  WaitUntil(all_ended, std::numeric_limits<double>::infinity(), show);
  MutexLock lock(mutex_);
  return std::move(record_);
}

template <typename Ready>
void BenchClient::WaitUntil(Ready ready, double end_seconds,
                            const OnProgress& on_progress) {
  while (true) {
    const double now = clock_.now_seconds();
    if (now >= end_seconds) return;
    BenchProgress progress;
    {
      MutexLock lock(mutex_);
      if (changed_.WaitFor(
              mutex_,
              Nanoseconds(std::min(kProgressPeriodSeconds, end_seconds - now)),
              ready))
        return;
      progress = progress_;
    }
    on_progress(progress);
  }
}

void BenchClient::Start(int64_t index, double due_seconds) {
  auto context = std::make_shared<grpc::ClientContext>();
  context->set_deadline(std::chrono::system_clock::now() +
                        Nanoseconds(settings_.timeout_seconds));
  const BenchRequest request = workload_.Request(index);
  auto* stream =
      new Stream(*this, index, due_seconds, RequestOf(request, index),
                 request.cancel_after_tokens, context);
  {
    MutexLock lock(mutex_);
    ++progress_.started;
    ++progress_.running;
    contexts_[index] = context;
    // Stop sees either the stream, or itself here.
    if (stopped_) context->TryCancel();
  }
  stream->Begin();
}

v1::GenerateRequest BenchClient::RequestOf(const BenchRequest& from,
                                           int64_t index) const {
  v1::GenerateRequest request;
  request.set_request_id(absl::StrCat(id_, "-", index));
  if (from.prompt_ids.empty())
    request.set_text(from.text);
  else
    request.mutable_token_ids()->mutable_ids()->Add(from.prompt_ids.begin(),
                                                    from.prompt_ids.end());
  v1::Sampling& sampling = *request.mutable_sampling();
  if (settings_.temperature)
    sampling.set_temperature(static_cast<float>(*settings_.temperature));
  sampling.set_seed(from.sampling_seed);
  request.mutable_stopping()->set_max_tokens(from.output_tokens);
  request.mutable_stopping()->set_ignore_eos(settings_.ignore_eos);
  return request;
}

void BenchClient::Stop() {
  std::vector<std::shared_ptr<grpc::ClientContext>> contexts;
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    for (const auto& [index, context] : contexts_) contexts.push_back(context);
    changed_.SignalAll();
  }
  for (const auto& context : contexts) context->TryCancel();
}

bool BenchClient::stopped() {
  MutexLock lock(mutex_);
  return stopped_;
}

void BenchClient::Cancel(const std::string& request_id) {
  {
    MutexLock lock(mutex_);
    ++cancels_;
  }
  (new CancelCall(*this, request_id))->Begin();
}

// A call that fails is a failure of its own; the stream then goes on.
void BenchClient::OnCancelDone(const absl::Status& status) {
  MutexLock lock(mutex_);
  --cancels_;
  if (!status.ok() && !stopped_) {
    BenchSample sample;
    sample.due_seconds = sample.end_seconds = clock_.now_seconds();
    sample.end = BenchSample::End::kFailed;
    sample.error = absl::StrCat("Cancel ", WordOf(status));
    sample.error_message = std::string(status.message());
    ++progress_.failed;
    record_.Add(std::move(sample));
  }
  changed_.SignalAll();
}

void BenchClient::OnTokens(int64_t count) {
  MutexLock lock(mutex_);
  progress_.tokens += count;
}

void BenchClient::OnEnd(int64_t index, BenchSample sample) {
  MutexLock lock(mutex_);
  // What Stop cancelled is nobody's failure.
  if (stopped_ && sample.end == BenchSample::End::kFailed &&
      absl::StartsWith(sample.error, "CANCELLED"))
    sample.end = BenchSample::End::kInterrupted;
  --progress_.running;
  ++progress_.ended;
  if (sample.end == BenchSample::End::kFailed) ++progress_.failed;
  record_.Add(std::move(sample));
  contexts_.erase(index);
  changed_.SignalAll();
}

}  // namespace phalanx
