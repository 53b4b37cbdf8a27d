#include "gateway/metrics/gateway_metrics.h"

#include <chrono>

#include "common/metrics/process_metrics.h"
#include "common/status.h"

namespace phalanx {
namespace {

constexpr MetricFacts kLimit = {
    "phalanx_queue_limit_requests",
    "Requests that this gateway holds at once, running ones included."};
constexpr MetricFacts kDraining = {
    "phalanx_draining", "1 from the signal that ends this gateway on."};

double WallSeconds() {
  return std::chrono::duration<double>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::vector<std::string> NamesOf(const std::vector<GroupSpec>& groups) {
  std::vector<std::string> names;
  for (const GroupSpec& group : groups) names.push_back(group.name);
  return names;
}

}  // namespace

GatewayMetrics::GatewayMetrics(const std::string& model,
                               const std::vector<GroupSpec>& groups,
                               const Admission& admission)
    : admission_(admission),
      calls_(registry_),
      engines_(model, registry_),
      requests_(model, NamesOf(groups), calls_, registry_),
      grpc_({"phalanx.v1.Inference", "phalanx.v1.Admin",
             "grpc.reflection.v1alpha.ServerReflection"},
            registry_) {
  for (const GroupSpec& group : groups)
    groups_.push_back(std::make_unique<GroupMetrics>(
        group.name, static_cast<int>(group.addresses.size()), WallSeconds,
        calls_, engines_, registry_));
  grpc_.AddHealth(registry_);
  registry_.AddGauge(kLimit).Set(static_cast<double>(admission.limit()));
  registry_.AddReader([this](MetricReadings& readings) {
    readings.Gauge(kDraining, admission_.draining() ? 1 : 0);
  });
  AddProcessMetrics("gateway", "none", registry_);
}

std::vector<WorkerGroup::Observer*> GatewayMetrics::groups() {
  std::vector<WorkerGroup::Observer*> observers;
  for (const auto& group : groups_) observers.push_back(group.get());
  return observers;
}

absl::Status GatewayMetrics::Serve(const std::string& listen,
                                   const Router& router) {
  if (listen == "off") return absl::OkStatus();
  ASSIGN_OR_RETURN(server_,
                   MetricsServer::Start(
                       "--metrics-listen", listen, registry_, [this, &router] {
                         if (admission_.draining())
                           return absl::UnavailableError("draining");
                         return router.ReadyView().status();
                       }));
  return absl::OkStatus();
}

}  // namespace phalanx
