#include "common/reason.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <string>

#include "absl/strings/cord.h"
#include "google/rpc/status.pb.h"

namespace phalanx {
namespace {

constexpr char kTypeUrl[] = "type.googleapis.com/google.rpc.ErrorInfo";

// A map has no order of its own, and equal errors must be equal bytes.
std::string SerializeInOrder(const google::rpc::ErrorInfo& info) {
  std::string bytes;
  google::protobuf::io::StringOutputStream out(&bytes);
  google::protobuf::io::CodedOutputStream coded(&out);
  coded.SetSerializationDeterministic(true);
  info.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

}  // namespace

absl::Status ReasonedError(absl::StatusCode code, absl::string_view word,
                           absl::string_view message,
                           std::map<std::string, std::string> metadata) {
  google::rpc::ErrorInfo info;
  info.set_reason(std::string(word));
  info.set_domain("phalanx");
  for (auto& [key, value] : metadata) (*info.mutable_metadata())[key] = value;
  absl::Status status(code, message);
  status.SetPayload(kTypeUrl, absl::Cord(SerializeInOrder(info)));
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
