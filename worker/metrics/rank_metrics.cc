#include "worker/metrics/rank_metrics.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/metrics/process_metrics.h"
#include "common/status.h"
#include "worker/collective/timed_collective.h"
#include "worker/metrics/state_metrics.h"

namespace phalanx {
namespace {

// The only group there is, as the gateway calls it.
constexpr char kGroup[] = "0";

}  // namespace

RankMetrics::RankMetrics(const RankMetricsConfig& config,
                         const StatusBoard& board, const Backend& backend)
    : board_(board),
      registry_({{"group", kGroup}, {"rank", absl::StrCat(config.rank)}}),
      steps_(config.transport, clock_, registry_),
      memory_(config.device, backend, board, config.comm_bytes, registry_),
      grpc_({"phalanx.v1.Worker", "phalanx.v1.Rank"}, registry_) {
  AddProcessMetrics("worker", config.device.name, registry_);
  AddStateMetrics(config.rank, config.limits, board, experts_, registry_);
}

absl::Status RankMetrics::Serve(const std::string& listen) {
  if (listen == "off") return absl::OkStatus();
  ASSIGN_OR_RETURN(
      server_,
      MetricsServer::Start("--metrics-listen", listen, registry_, [this] {
        const WorkerSnapshot now = board_.Read();
        if (now.state == WorkerState::kReady) return absl::OkStatus();
        return absl::UnavailableError(absl::StrCat(
            "not ready", now.detail.empty() ? "" : ": ", now.detail));
      }));
  return absl::OkStatus();
}

std::unique_ptr<Collective> RankMetrics::Watch(
    std::unique_ptr<Collective> collective) {
  if (collective->size() == 1) return collective;
  return std::make_unique<TimedCollective>(std::move(collective), steps_,
                                           clock_);
}

}  // namespace phalanx
