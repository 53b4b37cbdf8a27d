#include "gateway/metrics/gateway_metrics.h"

#include <chrono>

#include "common/metrics/process_metrics.h"
#include "common/status.h"

namespace phalanx {
namespace {

constexpr MetricFacts kLimit = {
    "phalanx_queue_limit_requests",
    "Requests that this gateway holds at once, running ones included."};
constexpr MetricFacts kDraining = {"phalanx_draining",
                                   "1 where no new request is let in."};

double WallSeconds() {
  return std::chrono::duration<double>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

GatewayMetrics::GatewayMetrics(const std::string& model,
                               const std::string& group, int ranks,
                               const Admission& admission)
    : admission_(admission),
      calls_(registry_),
      engines_(model, registry_),
      requests_(model, group, calls_, registry_),
      group_(group, ranks, WallSeconds, calls_, engines_, registry_),
      grpc_({"phalanx.v1.Inference", "phalanx.v1.Admin",
             "grpc.reflection.v1alpha.ServerReflection"},
            registry_) {
  grpc_.AddHealth(registry_);
  registry_.AddGauge(kLimit).Set(static_cast<double>(admission.limit()));
  registry_.AddReader([this](MetricReadings& readings) {
    readings.Gauge(kDraining, admission_.closed() ? 1 : 0);
  });
  AddProcessMetrics("gateway", "none", registry_);
}

absl::Status GatewayMetrics::Serve(const std::string& listen,
                                   const Router& router) {
  if (listen == "off") return absl::OkStatus();
  ASSIGN_OR_RETURN(server_,
                   MetricsServer::Start(
                       "--metrics-listen", listen, registry_, [this, &router] {
                         if (admission_.closed())
                           return absl::UnavailableError("draining");
                         return router.ReadyView().status();
                       }));
  return absl::OkStatus();
}

}  // namespace phalanx
