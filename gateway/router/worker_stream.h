#ifndef PHALANX_GATEWAY_ROUTER_WORKER_STREAM_H_
#define PHALANX_GATEWAY_ROUTER_WORKER_STREAM_H_

#include <grpcpp/grpcpp.h>

#include "absl/status/status.h"
#include "worker.grpc.pb.h"

namespace phalanx {

// Reads one Worker.Generate stream for one handler.
//
// Start it once; then the handler gets events one at a time and OnWorkerEnd
// exactly once, last, after which the stream may be destroyed. Handler calls
// come on gRPC's threads. A handler that is full pauses the stream and resumes
// it later; a paused stream does not end, even if its call is over, so Resume
// never meets a call that is gone.
class WorkerStream final
    : public grpc::ClientReadReactor<v1::WorkerGenerateEvent> {
 public:
  class Handler {
   public:
    virtual ~Handler() = default;
    // True: ready for the next event. False: it has called Pause.
    virtual bool OnWorkerEvent(const v1::WorkerGenerateEvent& event) = 0;
    // How the RPC ended, as the worker or the transport said it.
    virtual void OnWorkerEnd(const absl::Status& status) = 0;
  };

  explicit WorkerStream(Handler& handler) : handler_(handler) {}

  void Start(v1::Worker::StubInterface& leader,
             v1::WorkerGenerateRequest request);

  // Within OnWorkerEvent only; one Resume must follow, from any thread.
  void Pause() { AddHold(); }
  void Resume() {
    StartRead(&event_);
    RemoveHold();
  }

  // Any thread, any time after Start; OnWorkerEnd follows.
  void Cancel() { context_.TryCancel(); }

 private:
  void OnReadDone(bool ok) override {
    if (ok && handler_.OnWorkerEvent(event_)) StartRead(&event_);
  }
  void OnDone(const grpc::Status& status) override;

  Handler& handler_;
  grpc::ClientContext context_;
  v1::WorkerGenerateRequest request_;
  v1::WorkerGenerateEvent event_;
};

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_ROUTER_WORKER_STREAM_H_
