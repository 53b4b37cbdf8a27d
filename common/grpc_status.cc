#include "common/grpc_status.h"

#include <string>

#include "absl/strings/string_view.h"
#include "common/reason.h"
#include "common/units.h"
#include "google/rpc/status.pb.h"

namespace phalanx {
namespace {

// Clients refuse trailers above 8 KiB. The message is in them twice, once with
// every byte that is not printable ASCII spelled as three.
constexpr int64_t kMaxMessageBytes = 2 * kKiB;
constexpr int64_t kMaxMetadataBytes = 512;  // Of one value.
constexpr int64_t kMaxTokenBytes =
    1 * kKiB;  // Of resume_token: useless if cut.

// The front of `text` that takes at most `limit` bytes on the wire, cut between
// code points, since half of one would make the details undecodable.
std::string Cut(absl::string_view text, int64_t limit) {
  int64_t bytes = 0;
  size_t end = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if ((c & 0xC0) != 0x80) end = i;
    bytes += c >= 0x20 && c < 0x7F && c != '%' ? 1 : 3;
    if (bytes > limit) return std::string(text.substr(0, end));
  }
  return std::string(text);
}

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const std::string message = Cut(status.message(), kMaxMessageBytes);
  const auto code = static_cast<grpc::StatusCode>(status.code());
  Reason reason = ReasonOf(status);
  if (reason.word.empty()) return {code, message};
  for (auto& [key, value] : reason.metadata)
    value =
        Cut(value, key == "resume_token" ? kMaxTokenBytes : kMaxMetadataBytes);
  google::rpc::Status details;
  details.set_code(static_cast<int>(code));
  details.set_message(message);
  google::protobuf::Any& any = *details.add_details();
  any.set_type_url(kErrorInfoType);
  any.set_value(ErrorInfoBytes(reason));
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
