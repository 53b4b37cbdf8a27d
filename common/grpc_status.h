#ifndef PHALANX_COMMON_GRPC_STATUS_H_
#define PHALANX_COMMON_GRPC_STATUS_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace phalanx {

// absl and gRPC use the same code numbers. The reason travels as
// google.rpc.ErrorInfo in grpc-status-details-bin. Both travel in headers, so a
// message is cut to 2 KiB and a value of the reason's metadata to 512 bytes, as
// spelled there, between code points; a resume_token, to 1 KiB.
grpc::Status ToGrpc(const absl::Status& status);

// The inverse; details that are not ErrorInfo are dropped.
absl::Status FromGrpc(const grpc::Status& status);

}  // namespace phalanx

#endif  // PHALANX_COMMON_GRPC_STATUS_H_
