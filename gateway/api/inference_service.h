#ifndef PHALANX_GATEWAY_API_INFERENCE_SERVICE_H_
#define PHALANX_GATEWAY_API_INFERENCE_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "common/clock.h"
#include "gateway/admission/admission.h"
#include "gateway/api/active_requests.h"
#include "gateway/api/generation.h"
#include "gateway/api/live_streams.h"
#include "gateway/api/prepare.h"
#include "gateway/api/replay.h"
#include "gateway/api/request_observer.h"
#include "gateway/api/resume_token.h"
#include "gateway/router/router.h"
#include "inference.grpc.pb.h"

namespace phalanx {

// How streams outlive their groups, and gateways.
struct Resuming {
  Replay::Limits limits = {};
  ResumeKey key = ResumeKey::Random();
};

// The public methods: admit, render, tokenize, route; a Generation streams
// back. Registered with the gateway's server, which it outlives; its destructor
// waits until every stream is gone. Methods run on gRPC's threads and keep
// nothing.
//
// Generate, Chat and Resume take bytes and parse them here: gRPC itself would
// answer INTERNAL to a request that holds invalid UTF-8.
class InferenceService final
    : public v1::Inference::WithRawCallbackMethod_Generate<
          v1::Inference::WithRawCallbackMethod_Chat<
              v1::Inference::WithRawCallbackMethod_Resume<
                  v1::Inference::WithCallbackMethod_Cancel<
                      v1::Inference::WithCallbackMethod_GetModel<
                          v1::Inference::Service>>>>> {
 public:
  // All are lent and outlive this. `seed`: where the seeds of requests that
  // bring none come from, in order of arrival; without it they are drawn. A
  // null observer: nobody looks.
  InferenceService(const ModelText& text, Admission& admission,
                   ActiveRequests& active, Router& router, const Clock& clock,
                   std::optional<uint64_t> seed = std::nullopt,
                   RequestObserver* observer = nullptr, Resuming resuming = {})
      : seed_(seed),
        resuming_(std::move(resuming)),
        observer_(observer != nullptr ? *observer : no_observer_),
        text_(text),
        admission_(admission),
        active_(active),
        router_(router),
        clock_(clock) {}
  ~InferenceService() override { live_.WaitForNone(); }

  // That live, from their acceptance until their end is written.
  int64_t streams() const { return live_.count(); }

  grpc::ServerWriteReactor<grpc::ByteBuffer>* Generate(
      grpc::CallbackServerContext* context,
      const grpc::ByteBuffer* bytes) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Chat(
      grpc::CallbackServerContext* context,
      const grpc::ByteBuffer* bytes) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Resume(
      grpc::CallbackServerContext* context,
      const grpc::ByteBuffer* bytes) override;
  grpc::ServerUnaryReactor* Cancel(grpc::CallbackServerContext* context,
                                   const v1::CancelRequest* request,
                                   v1::CancelResponse* response) override;
  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* context,
                                     const v1::GetModelRequest* request,
                                     v1::GetModelResponse* response) override;

 private:
  // A request on its way in: what it has got so far.
  struct Incoming {
    bool model_known = false;  // It asks for what is served.
    Ticket ticket;
    Router::Route route;
    Generation::Origin origin;
  };

  // Begins the stream of what `accept` makes of the call, or refuses it.
  template <typename Accept>
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Serve(
      const grpc::CallbackServerContext& context, Accept accept);
  template <typename Request>
  absl::StatusOr<PreparedRequest> AcceptNew(const grpc::ByteBuffer& bytes,
                                            Incoming& incoming);
  absl::StatusOr<PreparedRequest> AcceptResumed(const grpc::ByteBuffer& bytes,
                                                Incoming& incoming);
  template <typename Request>
  absl::StatusOr<PreparedRequest> Admit(Request request, Incoming& incoming);

  // Of a group whose rank 0 answers; null where none does.
  std::shared_ptr<const WorkerGroup::View> FirstReachable() const;
  template <typename Request>
  void GiveSeed(Request& request);

  const std::optional<uint64_t> seed_;
  const Resuming resuming_;
  std::atomic<uint64_t> seeds_given_{0};
  RequestObserver no_observer_;
  RequestObserver& observer_;
  const ModelText& text_;
  Admission& admission_;
  ActiveRequests& active_;
  Router& router_;
  const Clock& clock_;
  LiveStreams live_;
};

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_API_INFERENCE_SERVICE_H_
