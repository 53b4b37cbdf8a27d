#ifndef PHALANX_GATEWAY_CLI_CLIENT_H_
#define PHALANX_GATEWAY_CLI_CLIENT_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "admin.grpc.pb.h"
#include "inference.grpc.pb.h"

namespace phalanx {

// What the verbs that talk to a running service share.

// Without TLS and without a proxy; connects when first used.
std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address);

// `address` if given, else the one that the last `serve` noted.
absl::StatusOr<std::string> FindAddress(const std::string& address);
absl::StatusOr<std::string> FindAdminAddress(const std::string& address);

// Waits at most a second.
absl::StatusOr<v1::GetStatusResponse> FetchStatus(v1::Admin::Stub& admin);

// "UNAVAILABLE/GROUP_LOST: message", for a person.
std::string Describe(const absl::Status& status);

// What a notice in the middle of an answer means, for a person.
std::string NoticeWords(const v1::Notice& notice);

// Prints `phalanx VERB: ...` to stderr; the exit code 1.
int Fail(const char* verb, const absl::Status& status);

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_CLI_CLIENT_H_
