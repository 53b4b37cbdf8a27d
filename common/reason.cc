#include "common/reason.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <string>
#include <utility>

#include "absl/strings/cord.h"
#include "google/rpc/status.pb.h"

namespace phalanx {

std::string ErrorInfoBytes(const Reason& reason) {
  google::rpc::ErrorInfo info;
  info.set_reason(reason.word);
  info.set_domain("phalanx");
  for (const auto& [key, value] : reason.metadata)
    (*info.mutable_metadata())[key] = value;
  std::string bytes;
  google::protobuf::io::StringOutputStream out(&bytes);
  google::protobuf::io::CodedOutputStream coded(&out);
  // The map has no order of its own.
  coded.SetSerializationDeterministic(true);
  info.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

absl::Status ReasonedError(absl::StatusCode code, absl::string_view word,
                           absl::string_view message,
                           std::map<std::string, std::string> metadata) {
  absl::Status status(code, message);
  status.SetPayload(
      kErrorInfoType,
      absl::Cord(ErrorInfoBytes(
          {.word = std::string(word), .metadata = std::move(metadata)})));
  return status;
}

Reason ReasonOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kErrorInfoType);
  google::rpc::ErrorInfo info;
  if (!payload.has_value() || !info.ParseFromString(std::string(*payload)))
    return {};
  Reason reason{.word = info.reason(), .metadata = {}};
  for (const auto& [key, value] : info.metadata()) reason.metadata[key] = value;
  return reason;
}

}  // namespace phalanx
