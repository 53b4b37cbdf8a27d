#include "gateway/router/worker_stream.h"

#include <utility>

#include "common/grpc_status.h"

namespace phalanx {

void WorkerStream::Start(v1::Worker::StubInterface& leader,
                         v1::WorkerGenerateRequest request) {
  request_ = std::move(request);
  leader.async()->Generate(&context_, &request_, this);
  StartRead(&event_);
  StartCall();
}

void WorkerStream::OnDone(const grpc::Status& status) {
  handler_.OnWorkerEnd(FromGrpc(status));
}

}  // namespace phalanx
