#include "common/grpc_status.h"

#include <string>

#include "common/reason.h"
#include "common/units.h"
#include "google/rpc/status.pb.h"

namespace phalanx {

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const std::string message(status.message().substr(0, 2 * kKiB));
  const auto code = static_cast<grpc::StatusCode>(status.code());
  const Reason reason = ReasonOf(status);
  if (reason.word.empty()) return {code, message};
  google::rpc::ErrorInfo info;
  info.set_reason(reason.word);
  info.set_domain("phalanx");
  for (const auto& [key, value] : reason.metadata)
    (*info.mutable_metadata())[key] = value;
  google::rpc::Status details;
  details.set_code(static_cast<int>(code));
  details.set_message(message);
  details.add_details()->PackFrom(info);
  return {code, message, details.SerializeAsString()};
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const auto code = static_cast<absl::StatusCode>(status.error_code());
  google::rpc::Status details;
  if (details.ParseFromString(status.error_details())) {
    for (const auto& any : details.details()) {
      google::rpc::ErrorInfo info;
      if (!any.UnpackTo(&info)) continue;
      return ReasonedError(code, info.reason(), status.error_message(),
                           {info.metadata().begin(), info.metadata().end()});
    }
  }
  return absl::Status(code, status.error_message());
}

}  // namespace phalanx
