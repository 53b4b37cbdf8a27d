#ifndef PHALANX_GATEWAY_API_INFERENCE_SERVICE_H_
#define PHALANX_GATEWAY_API_INFERENCE_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <memory>

#include "common/clock.h"
#include "gateway/admission/admission.h"
#include "gateway/api/active_requests.h"
#include "gateway/api/prepare.h"
#include "gateway/router/worker_group.h"
#include "inference.grpc.pb.h"

namespace phalanx {

// The public methods: admit, render, tokenize, route; a Generation streams
// back. Registered with the gateway's server, which it outlives; methods run on
// gRPC's threads and keep nothing.
//
// Generate and Chat take bytes and parse them here: gRPC itself would answer
// INTERNAL to a request that holds invalid UTF-8.
class InferenceService final
    : public v1::Inference::WithRawCallbackMethod_Generate<
          v1::Inference::WithRawCallbackMethod_Chat<
              v1::Inference::WithCallbackMethod_Cancel<
                  v1::Inference::WithCallbackMethod_GetModel<
                      v1::Inference::Service>>>> {
 public:
  // All are lent and outlive this.
  InferenceService(const ModelText& text, Admission& admission,
                   ActiveRequests& active, WorkerGroup& group,
                   const Clock& clock)
      : text_(text),
        admission_(admission),
        active_(active),
        group_(group),
        clock_(clock) {}

  grpc::ServerWriteReactor<grpc::ByteBuffer>* Generate(
      grpc::CallbackServerContext* context,
      const grpc::ByteBuffer* bytes) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Chat(
      grpc::CallbackServerContext* context,
      const grpc::ByteBuffer* bytes) override;
  grpc::ServerUnaryReactor* Cancel(grpc::CallbackServerContext* context,
                                   const v1::CancelRequest* request,
                                   v1::CancelResponse* response) override;
  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* context,
                                     const v1::GetModelRequest* request,
                                     v1::GetModelResponse* response) override;

 private:
  template <typename Request>
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Serve(
      const grpc::ByteBuffer& bytes);
  template <typename Request>
  absl::StatusOr<PreparedRequest> Accept(const grpc::ByteBuffer& bytes,
                                         Ticket& ticket);

  const ModelText& text_;
  Admission& admission_;
  ActiveRequests& active_;
  WorkerGroup& group_;
  const Clock& clock_;
};

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_API_INFERENCE_SERVICE_H_
