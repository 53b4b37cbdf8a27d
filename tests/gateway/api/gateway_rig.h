#ifndef PHALANX_TESTS_GATEWAY_API_GATEWAY_RIG_H_
#define PHALANX_TESTS_GATEWAY_API_GATEWAY_RIG_H_

// The public service of a gateway in front of one fake worker, and a client of
// it in the same process.

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/mutex.h"
#include "gateway/admission/admission.h"
#include "gateway/api/active_requests.h"
#include "gateway/api/inference_service.h"
#include "gateway/api/request_observer.h"
#include "gateway/router/router.h"
#include "inference.grpc.pb.h"
#include "tests/gateway/router/fake_worker.h"
#include "tests/gateway/router/news.h"

namespace phalanx {

// One client's stream. In this process a message is under way until it is read,
// so a client that does not read is as slow as can be.
class ClientStream {
 public:
  ClientStream(v1::Inference::Stub& stub, const v1::GenerateRequest& request)
      : reader_(stub.Generate(&context_, request)) {}
  ClientStream(v1::Inference::Stub& stub, const v1::ChatRequest& request)
      : reader_(stub.Chat(&context_, request)) {}
  ClientStream(v1::Inference::Stub& stub, const v1::ResumeRequest& request)
      : reader_(stub.Resume(&context_, request)) {}
  // One that waits so long.
  ClientStream(v1::Inference::Stub& stub, const v1::GenerateRequest& request,
               std::chrono::milliseconds timeout) {
    context_.set_deadline(std::chrono::system_clock::now() + timeout);
    reader_ = stub.Generate(&context_, request);
  }

  bool Read(v1::GenerateEvent& event) { return reader_->Read(&event); }
  // All that comes from now on.
  std::vector<v1::GenerateEvent> ReadAll();
  // After the last event.
  absl::Status End();
  void GoAway() { context_.TryCancel(); }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::GenerateEvent>> reader_;
};

// The content of all deltas, one after the other.
std::string TextOf(const std::vector<v1::GenerateEvent>& events);
std::vector<int32_t> IdsOf(const std::vector<v1::GenerateEvent>& events);

// How a rig's streams outlive their groups: an epoch that was lost is never
// tried again, and one of other numerics at once.
Replay::Limits RigLimits(double wait_seconds = 60);

// How requests ended, in order.
class OutcomeRecorder final : public RequestObserver {
 public:
  void OnEnd(const RequestEnd& end) override {
    MutexLock lock(mutex_);
    outcomes_.push_back(end.outcome);
  }
  std::vector<RequestOutcome> outcomes() {
    MutexLock lock(mutex_);
    return outcomes_;
  }

 private:
  Mutex mutex_;
  std::vector<RequestOutcome> outcomes_ ABSL_GUARDED_BY(mutex_);
};

class GatewayRig {
 public:
  // The worker starts with this status; the group is watched. All rigs
  // have one key for resume tokens.
  explicit GatewayRig(const v1::WorkerStatus& status, int64_t max_requests = 64,
                      const Replay::Limits& limits = RigLimits());
  ~GatewayRig();

  FakeWorker& worker() { return *worker_; }
  v1::Inference::Stub& stub() { return *stub_; }
  Admission& admission() { return admission_; }
  std::vector<RequestOutcome> outcomes() { return recorder_.outcomes(); }
  ActiveRequests& active() { return active_; }
  // The worker's process dies and another one takes its place, with this
  // status and the same script.
  void Replace(const v1::WorkerStatus& status);
  // Until the gateway has looked at the worker once, and, where that can be,
  // has seen it ready.
  void WaitUntilSeen() { seen_.Wait(); }

  // A stream with this prompt.
  std::unique_ptr<ClientStream> Generate(const v1::GenerateRequest& request);
  std::unique_ptr<ClientStream> Generate(const std::string& id);
  v1::CancelResponse Cancel(const v1::CancelRequest& request);

 private:
  const std::unique_ptr<Tokenizer> tokenizer_;
  const std::unique_ptr<ChatTemplate> template_;
  const ModelText text_;
  SocketFolder folder_;
  Event seen_;
  MonotonicClock clock_;
  Admission admission_;
  ActiveRequests active_;
  OutcomeRecorder recorder_;
  std::unique_ptr<FakeWorker> worker_;
  std::unique_ptr<Router> router_;
  std::unique_ptr<InferenceService> service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::Inference::Stub> stub_;
};

// A request for the text "p" with this id.
v1::GenerateRequest RequestOf(const std::string& id);

// Writes one token after the other until nobody takes them.
grpc::Status WriteUntilNobodyReads(FakeWorker::Writer& writer);

}  // namespace phalanx

#endif  // PHALANX_TESTS_GATEWAY_API_GATEWAY_RIG_H_
