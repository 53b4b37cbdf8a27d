#ifndef PHALANX_WORKER_METRICS_RANK_METRICS_H_
#define PHALANX_WORKER_METRICS_RANK_METRICS_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "common/clock.h"
#include "common/metrics/grpc_metrics.h"
#include "common/metrics/metric_registry.h"
#include "common/metrics/metrics_server.h"
#include "kernels/backend.h"
#include "worker/collective/collective.h"
#include "worker/engine/status_board.h"
#include "worker/metrics/expert_tally.h"
#include "worker/metrics/memory_metrics.h"
#include "worker/metrics/step_metrics.h"
#include "worker/scheduler/limits.h"

namespace phalanx {

struct RankMetricsConfig {
  int rank = 0;
  std::string transport;  // Of the collective: "shm", "nccl".
  DeviceFacts device;
  int64_t comm_bytes = 0;
  SchedulerLimits limits;
};

// All metrics of a worker, and the server that shows them. Made by main before
// the weights are read, outlives everything that it observes but the board and
// the backend, which are lent.
class RankMetrics {
 public:
  RankMetrics(const RankMetricsConfig& config, const StatusBoard& board,
              const Backend& backend);

  // Serves them at HOST:PORT; "off": nowhere. Errors are MetricsServer's.
  absl::Status Serve(const std::string& listen);
  // Ends that; nothing refers to what was lent any more.
  void Stop() { server_.reset(); }
  // Where; empty if nowhere.
  std::string address() const {
    return server_ == nullptr ? "" : server_->address();
  }

  // Counts the calls of this server, before it is built.
  void Watch(grpc::ServerBuilder& builder) { grpc_.Watch(builder); }
  // The same collective, observed. A group of one has no calls to observe.
  std::unique_ptr<Collective> Watch(std::unique_ptr<Collective> collective);

  StepMetrics& steps() { return steps_; }
  ExpertTally& experts() { return experts_; }
  MemoryMetrics& memory() { return memory_; }
  std::string Text() const { return registry_.Text(); }

 private:
  const StatusBoard& board_;
  MonotonicClock clock_;
  MetricRegistry registry_;
  ExpertTally experts_;
  StepMetrics steps_;
  MemoryMetrics memory_;
  GrpcServerMetrics grpc_;
  std::unique_ptr<MetricsServer> server_;  // Last: it reads all the others.
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_METRICS_RANK_METRICS_H_
