#ifndef PHALANX_GATEWAY_METRICS_GATEWAY_METRICS_H_
#define PHALANX_GATEWAY_METRICS_GATEWAY_METRICS_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/metrics/grpc_metrics.h"
#include "common/metrics/metric_registry.h"
#include "common/metrics/metrics_server.h"
#include "gateway/admission/admission.h"
#include "gateway/metrics/engine_metrics.h"
#include "gateway/metrics/group_metrics.h"
#include "gateway/metrics/request_metrics.h"
#include "gateway/metrics/worker_calls.h"
#include "gateway/router/router.h"

namespace phalanx {

// All metrics of a gateway, and the server that shows them. Made by main before
// any group is watched, outlives router, services and servers.
class GatewayMetrics {
 public:
  // `model` is what clients call it; `groups` are the router's. Admission is
  // lent.
  GatewayMetrics(const std::string& model, const std::vector<GroupSpec>& groups,
                 const Admission& admission);

  // Serves them at HOST:PORT; "off": nowhere. /readyz says whether a
  // group of `router`, which outlives the server, is ready. Errors are
  // MetricsServer's.
  absl::Status Serve(const std::string& listen, const Router& router);
  // Ends that; nothing refers to the router any more.
  void Stop() { server_.reset(); }
  // Where; empty if nowhere.
  std::string address() const {
    return server_ == nullptr ? "" : server_->address();
  }

  // Counts the calls of this server, before it is built.
  void Watch(grpc::ServerBuilder& builder) { grpc_.Watch(builder); }

  RequestObserver& requests() { return requests_; }
  // By group; lent to the router.
  std::vector<WorkerGroup::Observer*> groups();
  std::string Text() const { return registry_.Text(); }

 private:
  const Admission& admission_;
  MetricRegistry registry_;
  WorkerCalls calls_;
  EngineMetrics engines_;
  RequestMetrics requests_;
  std::vector<std::unique_ptr<GroupMetrics>> groups_;  // By group.
  GrpcServerMetrics grpc_;
  std::unique_ptr<MetricsServer> server_;  // Last: it reads all the others.
};

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_METRICS_GATEWAY_METRICS_H_
