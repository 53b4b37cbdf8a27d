#include "gateway/metrics/request_metrics.h"

#include <algorithm>
#include <vector>

#include "common/reason.h"

namespace phalanx {
namespace {

constexpr MetricFacts kRequests = {"phalanx_requests_total",
                                   "Generate and Chat calls that ended, by "
                                   "how."};
constexpr MetricFacts kRejected = {"phalanx_request_rejections_total",
                                   "Calls that ended rejected, by why."};
constexpr MetricFacts kRunning = {
    "phalanx_requests_running",
    "Streams of this gateway that the group has admitted."};
constexpr MetricFacts kWaiting = {
    "phalanx_requests_waiting",
    "Streams of this gateway that wait to be admitted."};
constexpr MetricFacts kFirst = {
    "phalanx_time_to_first_token_seconds",
    "From a call's arrival to the moment its first delta is handed to gRPC."};
constexpr MetricFacts kNext = {
    "phalanx_inter_token_latency_seconds",
    "Between two deltas of a stream, as they are handed to gRPC; a delta "
    "carries one token, more where tokens came together."};
constexpr MetricFacts kSeconds = {"phalanx_request_duration_seconds",
                                  "From a call's arrival to its end."};
constexpr MetricFacts kQueue = {"phalanx_request_queue_seconds",
                                "Time in the group's queue."};
constexpr MetricFacts kPrefill = {"phalanx_request_prefill_seconds",
                                  "From admission to the first token."};
constexpr MetricFacts kPrompt = {"phalanx_request_prompt_tokens",
                                 "Tokens of a stream's prompt."};
constexpr MetricFacts kGenerated = {"phalanx_request_generated_tokens",
                                    "Tokens that a stream generated."};
constexpr MetricFacts kPromptTotal = {
    "phalanx_prompt_tokens_total",
    "Prompt tokens of admitted streams, by where their state came from."};
constexpr MetricFacts kGeneratedTotal = {"phalanx_generated_tokens_total",
                                         "Tokens generated, by channel."};
constexpr MetricFacts kDiscardedTotal = {
    "phalanx_discarded_tokens_total",
    "Tokens computed in vain, by why: no client got them, or their state was "
    "given up and is computed again."};
constexpr MetricFacts kResumes = {
    "phalanx_stream_resumes_total",
    "Streams whose group was lost, by what came of it."};
constexpr MetricFacts kStall = {
    "phalanx_stream_stall_seconds_total",
    "Time in which reading from the group rested for slow clients."};
constexpr MetricFacts kBuffered = {
    "phalanx_stream_buffered_bytes",
    "The most bytes that waited for a stream's client."};

const std::vector<double> kFirstBounds = {.005, .01, .025, .05, .1, .25, .5,
                                          1,    2.5, 5,    10,  30, 60,  120};
const std::vector<double> kNextBounds = {.001, .0025, .005, .0075, .01, .015,
                                         .02,  .03,   .05,  .075,  .1,  .15,
                                         .25,  .5,    1,    2.5,   5};
const std::vector<double> kSecondsBounds = {
    .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 3600};
const std::vector<double> kQueueBounds = {
    .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60};

constexpr std::array<const char*, 5> kPriorityNames = {
    "lowest", "low", "normal", "high", "highest"};

// By ResumeResult.
constexpr std::array<const char*, kResumeResults> kResultNames = {
    "resumed", "exhausted", "refused"};

// inference.proto's Priority; unset is normal, as rank 0 takes it.
size_t PriorityIndex(int priority) {
  return priority == 0 ? 2 : std::clamp(priority, 1, 5) - 1;
}

double Number(int64_t count) { return static_cast<double>(count); }

}  // namespace

RequestMetrics::RequestMetrics(const std::string& model,
                               const std::vector<std::string>& groups,
                               WorkerCalls& calls, MetricRegistry& registry)
    : calls_(calls),
      model_({{"model", model}}),
      served_(MakeByModel(model, registry)),
      other_(MakeByModel("other", registry)),
      first_seconds_(registry.AddHistogram(kFirst, kFirstBounds, model_)),
      next_seconds_(registry.AddHistogram(kNext, kNextBounds, model_)),
      queue_seconds_(registry.AddHistogram(kQueue, kQueueBounds, model_)),
      prefill_seconds_(registry.AddHistogram(kPrefill, kQueueBounds, model_)),
      prompt_tokens_(
          registry.AddHistogram(kPrompt, ExponentialBounds(1, 4, 10), model_)),
      generated_tokens_(registry.AddHistogram(
          kGenerated, ExponentialBounds(1, 4, 10), model_)),
      stall_seconds_(registry.AddCounter(kStall)),
      buffered_bytes_(
          registry.AddHistogram(kBuffered, ExponentialBounds(256, 4, 10))) {
  for (int i = 0; i < kRejections; ++i)
    rejections_[i] =
        &registry.AddCounter(kRejected, {{"reason", kRejectionNames[i]}});
  for (const std::string& group : groups)
    places_.push_back(MakePlaces(group, registry));
  AddZeros(model, registry);
}

RequestMetrics::ByModel RequestMetrics::MakeByModel(const std::string& model,
                                                    MetricRegistry& registry) {
  ByModel made;
  for (int i = 0; i < kRequestOutcomes; ++i) {
    const MetricLabels labels = {{"model", model},
                                 {"outcome", kOutcomeNames[i]}};
    made.requests[i] = &registry.AddCounter(kRequests, labels);
    made.seconds[i] = &registry.AddHistogram(kSeconds, kSecondsBounds, labels);
  }
  return made;
}

RequestMetrics::Places RequestMetrics::MakePlaces(const std::string& group,
                                                  MetricRegistry& registry) {
  Places places;
  places.running = &registry.AddGauge(kRunning, {{"group", group}});
  for (int i = 0; i < kPriorities; ++i)
    places.waiting[i] = &registry.AddGauge(
        kWaiting, {{"group", group}, {"priority", kPriorityNames[i]}});
  return places;
}

// Families whose labels are a closed set show all of it, also what cannot
// happen yet: tool calls, speculation.
void RequestMetrics::AddZeros(const std::string& model,
                              MetricRegistry& registry) {
  const auto prompt = [&](const char* source) {
    return &registry.AddCounter(kPromptTotal,
                                {{"model", model}, {"source", source}});
  };
  computed_ = prompt("computed");
  cached_ = prompt("prefix_cache");
  resumed_ = prompt("resumed");
  const auto generated = [&](const char* channel) {
    return &registry.AddCounter(kGeneratedTotal,
                                {{"model", model}, {"channel", channel}});
  };
  content_ = generated("content");
  reasoning_ = generated("reasoning");
  generated("tool");
  const auto discarded = [&](const char* reason) {
    return &registry.AddCounter(kDiscardedTotal,
                                {{"model", model}, {"reason", reason}});
  };
  discarded_cancelled_ = discarded("cancelled");
  discarded_deadline_ = discarded("deadline");
  discarded_lost_ = discarded("group_lost");
  discarded_preempted_ = discarded("preempted");
  discarded_slow_ = discarded("slow_reader");
  discarded("speculation");
  for (int i = 0; i < kResumeResults; ++i)
    resumes_[i] = &registry.AddCounter(kResumes, {{"result", kResultNames[i]}});
}

void RequestMetrics::OnWaiting(const QueuedRequest& request) {
  places_[request.group].waiting[PriorityIndex(request.priority)]->Increment();
}

void RequestMetrics::Leave(const QueuedRequest& request) {
  places_[request.group].waiting[PriorityIndex(request.priority)]->Decrement();
}

void RequestMetrics::OnAdmitted(const QueuedRequest& request,
                                double queue_seconds, int64_t prompt_tokens,
                                int64_t cached_tokens) {
  Leave(request);
  places_[request.group].running->Increment();
  queue_seconds_.Observe(queue_seconds);
  computed_->Increment(Number(prompt_tokens - cached_tokens));
  cached_->Increment(Number(cached_tokens));
}

void RequestMetrics::OnMoved(const QueuedRequest& was, const QueuedRequest& is,
                             bool admitted) {
  const auto gauge = [&](const QueuedRequest& place) {
    Places& places = places_[place.group];
    return admitted ? places.running
                    : places.waiting[PriorityIndex(place.priority)];
  };
  gauge(was)->Decrement();
  gauge(is)->Increment();
}

void RequestMetrics::OnReadmitted(int64_t tokens, int64_t cached_tokens) {
  resumed_->Increment(Number(tokens - cached_tokens));
  cached_->Increment(Number(cached_tokens));
  discarded_lost_->Increment(Number(tokens - cached_tokens));
}

void RequestMetrics::OnPreempted(int64_t tokens) {
  discarded_preempted_->Increment(Number(tokens));
}

void RequestMetrics::OnTokens(int64_t content, int64_t reasoning) {
  if (content > 0) content_->Increment(Number(content));
  if (reasoning > 0) reasoning_->Increment(Number(reasoning));
}

void RequestMetrics::OnDiscarded(RequestOutcome outcome, int64_t tokens) {
  prometheus::Counter* const counter =
      outcome == RequestOutcome::kCancelled   ? discarded_cancelled_
      : outcome == RequestOutcome::kDeadline  ? discarded_deadline_
      : outcome == RequestOutcome::kGroupLost ? discarded_lost_
                                              : nullptr;
  if (counter != nullptr && tokens > 0) counter->Increment(Number(tokens));
}

void RequestMetrics::OnStreamEnd(const QueuedRequest& was, bool admitted) {
  if (admitted)
    places_[was.group].running->Decrement();
  else
    Leave(was);
}

void RequestMetrics::OnEnd(const RequestEnd& end) {
  const ByModel& by_model = end.model_known ? served_ : other_;
  const auto outcome = static_cast<size_t>(end.outcome);
  by_model.requests[outcome]->Increment();
  by_model.seconds[outcome]->Observe(end.seconds);
  if (end.outcome == RequestOutcome::kRejected)
    rejections_[static_cast<size_t>(RejectionOf(end.status))]->Increment();
  if (!end.streamed) return;
  prompt_tokens_.Observe(Number(end.prompt_tokens));
  generated_tokens_.Observe(Number(end.generated_tokens));
  buffered_bytes_.Observe(Number(end.buffered_bytes_most));
  if (ReasonOf(end.status).word == "SLOW_READER")
    discarded_slow_->Increment(Number(end.discarded_tokens));
  else
    OnDiscarded(end.outcome, end.discarded_tokens);
}

}  // namespace phalanx
