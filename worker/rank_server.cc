#include "worker/rank_server.h"

#include <grpc/grpc.h>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "common/status.h"

namespace phalanx {

absl::StatusOr<std::unique_ptr<grpc::Server>> StartRankServer(
    const WorkerConfig& flags, const std::vector<grpc::Service*>& services,
    RankMetrics& metrics, std::string& address) {
  RETURN_IF_ERROR(metrics.Serve(flags.metrics_listen));
  const std::string& listen = flags.listen;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.SetMaxReceiveMessageSize(32 << 20);
  // Gateways find a stopped rank by pings, as often as they like, also between
  // two calls.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(
      GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 100);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  builder.AddListeningPort(listen, grpc::InsecureServerCredentials(), &port);
  for (grpc::Service* service : services) builder.RegisterService(service);
  metrics.Watch(builder);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port == 0)
    return absl::UnavailableError(absl::StrCat(
        "--listen is ", listen,
        "; it cannot be bound: in use, or no address of this host"));
  address = absl::StartsWith(listen, "unix:")
                ? listen
                : absl::StrCat(listen.substr(0, listen.rfind(':')), ":", port);
  LogInfo("worker", "listening",
          {{"address", address}, {"metrics", metrics.address()}});
  return server;
}

}  // namespace phalanx
