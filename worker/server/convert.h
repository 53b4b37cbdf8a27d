#ifndef PHALANX_WORKER_SERVER_CONVERT_H_
#define PHALANX_WORKER_SERVER_CONVERT_H_

// worker.proto <-> the scheduler's structs: the only place where both are
// known. Pure; any thread. Values are checked by ValidateRequest, not here.

#include "worker.pb.h"
#include "worker/scheduler/request.h"
#include "worker/scheduler/token_sink.h"

namespace phalanx {

Request FromProto(const v1::WorkerGenerateRequest& proto);
v1::WorkerToken ToProto(const Token& token);
v1::WorkerFinished ToProto(FinishReason reason, int32_t stop_id);

}  // namespace phalanx

#endif  // PHALANX_WORKER_SERVER_CONVERT_H_
