#ifndef PHALANX_GATEWAY_METRICS_REQUEST_METRICS_H_
#define PHALANX_GATEWAY_METRICS_REQUEST_METRICS_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "common/metrics/metric_registry.h"
#include "gateway/api/request_observer.h"
#include "gateway/metrics/worker_calls.h"

namespace phalanx {

// What becomes of requests, as series. The model's label is the served model's
// name or `other`: a client's own words are never a label.
class RequestMetrics final : public RequestObserver {
 public:
  // `groups`: the names of the router's groups, in its order. `calls` is lent.
  RequestMetrics(const std::string& model,
                 const std::vector<std::string>& groups, WorkerCalls& calls,
                 MetricRegistry& registry);

  void OnWaiting(const QueuedRequest& request) override;
  void OnAdmitted(const QueuedRequest& request, double queue_seconds,
                  int64_t prompt_tokens, int64_t cached_tokens) override;
  void OnMoved(const QueuedRequest& was, const QueuedRequest& is,
               bool admitted) override;
  void OnReadmitted(int64_t tokens, int64_t cached_tokens) override;
  void OnResume(ResumeResult result) override {
    resumes_[static_cast<size_t>(result)]->Increment();
  }
  void OnPreempted(int64_t tokens) override;
  void OnPrefilled(double seconds) override {
    prefill_seconds_.Observe(seconds);
  }
  void OnTokens(int64_t content, int64_t reasoning) override;
  void OnFirstDelta(double seconds) override {
    first_seconds_.Observe(seconds);
  }
  void OnNextDelta(double seconds) override { next_seconds_.Observe(seconds); }
  void OnStall(double seconds) override { stall_seconds_.Increment(seconds); }
  void OnDiscarded(RequestOutcome outcome, int64_t tokens) override;
  void OnWorkerCall(absl::StatusCode code, double seconds) override {
    calls_.Count(WorkerMethod::kGenerate, code, seconds);
  }
  void OnStreamEnd(const QueuedRequest& was, bool admitted) override;
  void OnEnd(const RequestEnd& end) override;

 private:
  static constexpr int kPriorities = 5;

  // Of one value of the model's label.
  struct ByModel {
    std::array<prometheus::Counter*, kRequestOutcomes> requests;
    std::array<prometheus::Histogram*, kRequestOutcomes> seconds;
  };
  // Streams in one group.
  struct Places {
    std::array<prometheus::Gauge*, kPriorities> waiting;
    prometheus::Gauge* running = nullptr;
  };

  ByModel MakeByModel(const std::string& model, MetricRegistry& registry);
  static Places MakePlaces(const std::string& group, MetricRegistry& registry);
  void AddZeros(const std::string& model, MetricRegistry& registry);
  void Leave(const QueuedRequest& request);

  WorkerCalls& calls_;
  const MetricLabels model_;
  ByModel served_;
  ByModel other_;
  std::array<prometheus::Counter*, kRejections> rejections_;
  std::vector<Places> places_;  // By group.
  prometheus::Histogram& first_seconds_;
  prometheus::Histogram& next_seconds_;
  prometheus::Histogram& queue_seconds_;
  prometheus::Histogram& prefill_seconds_;
  prometheus::Histogram& prompt_tokens_;
  prometheus::Histogram& generated_tokens_;
  prometheus::Counter* computed_ = nullptr;
  prometheus::Counter* cached_ = nullptr;
  prometheus::Counter* resumed_ = nullptr;
  prometheus::Counter* content_ = nullptr;
  prometheus::Counter* reasoning_ = nullptr;
  prometheus::Counter* discarded_cancelled_ = nullptr;
  prometheus::Counter* discarded_deadline_ = nullptr;
  prometheus::Counter* discarded_lost_ = nullptr;
  prometheus::Counter* discarded_preempted_ = nullptr;
  prometheus::Counter* discarded_slow_ = nullptr;
  std::array<prometheus::Counter*, kResumeResults> resumes_;
  prometheus::Counter& stall_seconds_;
  prometheus::Histogram& buffered_bytes_;
};

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_METRICS_REQUEST_METRICS_H_
