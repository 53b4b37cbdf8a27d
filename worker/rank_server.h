#ifndef PHALANX_WORKER_RANK_SERVER_H_
#define PHALANX_WORKER_RANK_SERVER_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/config.h"
#include "worker/metrics/rank_metrics.h"

namespace phalanx {

// Serves a rank's services at flags.listen and its metrics at
// flags.metrics_listen; `services` and `metrics` outlive the server. `address`
// becomes what others reach it by, with the port that was taken. UNAVAILABLE
// names an address that cannot be bound.
absl::StatusOr<std::unique_ptr<grpc::Server>> StartRankServer(
    const WorkerConfig& flags, const std::vector<grpc::Service*>& services,
    RankMetrics& metrics, std::string& address);

}  // namespace phalanx

#endif  // PHALANX_WORKER_RANK_SERVER_H_
