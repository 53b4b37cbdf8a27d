#include "gateway/cli/client.h"

#include <chrono>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "common/grpc_status.h"
#include "common/reason.h"
#include "common/status.h"
#include "gateway/cli/run_file.h"

namespace phalanx {

std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  // A service on this host or its network, whatever the environment's proxy.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // A service that comes back is found at the next try.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 200);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 200);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(),
                                   arguments);
}

absl::StatusOr<std::string> FindAddress(const std::string& address) {
  if (!address.empty()) return address;
  ASSIGN_OR_RETURN(const RunFile run, ReadRunFile());
  return run.address;
}

absl::StatusOr<std::string> FindAdminAddress(const std::string& address) {
  if (!address.empty()) return address;
  ASSIGN_OR_RETURN(const RunFile run, ReadRunFile());
  return run.admin_address;
}

absl::StatusOr<v1::GetStatusResponse> FetchStatus(v1::Admin::Stub& admin) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::seconds(1));
  v1::GetStatusResponse response;
  const absl::Status status =
      FromGrpc(admin.GetStatus(&context, {}, &response));
  if (!status.ok()) return status;
  return response;
}

std::string Describe(const absl::Status& status) {
  const Reason reason = ReasonOf(status);
  // gRPC itself says no more where a call is not served.
  const absl::string_view message =
      absl::IsUnimplemented(status) && status.message().empty()
          ? "whoever answers at this address does not serve this call; it may "
            "be the clients' port instead of the operators', or the other way "
            "round, or another version"
          : status.message();
  return absl::StrCat(absl::StatusCodeToString(status.code()),
                      reason.word.empty() ? "" : "/", reason.word, ": ",
                      message);
}

std::string NoticeWords(const v1::Notice& notice) {
  const std::string detail =
      notice.detail().empty() ? "" : absl::StrCat(" (", notice.detail(), ")");
  switch (notice.kind()) {
    case v1::Notice::RESUMED:
      return absl::StrCat(
          "a part of the service died; the answer goes on as if it had not",
          detail);
    case v1::Notice::PREEMPTED:
      return absl::StrCat(
          "the answer waits for others; it goes on as if it had not", detail);
    case v1::Notice::DEGRADED:
      return absl::StrCat(
          "the answer goes on where it is computed differently; from here on "
          "it may not be what it would have been",
          detail);
    default:
      return notice.detail();
  }
}

int Fail(const char* verb, const absl::Status& status) {
  std::fprintf(stderr, "phalanx %s: %s\n", verb, Describe(status).c_str());
  return 1;
}

}  // namespace phalanx
