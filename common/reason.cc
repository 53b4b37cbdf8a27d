#include "common/reason.h"

#include "absl/strings/cord.h"
#include "google/rpc/status.pb.h"

namespace phalanx {
namespace {

constexpr char kTypeUrl[] = "type.googleapis.com/google.rpc.ErrorInfo";

}  // namespace

absl::Status ReasonedError(absl::StatusCode code, absl::string_view word,
                           absl::string_view message,
                           std::map<std::string, std::string> metadata) {
  google::rpc::ErrorInfo info;
  info.set_reason(std::string(word));
  info.set_domain("phalanx");
  for (auto& [key, value] : metadata) (*info.mutable_metadata())[key] = value;
  absl::Status status(code, message);
  status.SetPayload(kTypeUrl, absl::Cord(info.SerializeAsString()));
  return status;
}

Reason ReasonOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kTypeUrl);
  google::rpc::ErrorInfo info;
  if (!payload.has_value() || !info.ParseFromString(std::string(*payload)))
    return {};
  Reason reason{.word = info.reason(), .metadata = {}};
  for (const auto& [key, value] : info.metadata()) reason.metadata[key] = value;
  return reason;
}

}  // namespace phalanx
