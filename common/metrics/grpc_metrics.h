#ifndef PHALANX_COMMON_METRICS_GRPC_METRICS_H_
#define PHALANX_COMMON_METRICS_GRPC_METRICS_H_

#include <grpcpp/grpcpp.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/metrics/metric_registry.h"

namespace phalanx {

// The series of one method of one service, under the names that dashboards of
// gRPC know (grpc_server_*).
class GrpcMethodMetrics {
 public:
  GrpcMethodMetrics(const std::string& type, const std::string& service,
                    const std::string& method, MetricRegistry& registry);

  void Started() { started_.Increment(); }
  void Received() { received_.Increment(); }
  void Sent() { sent_.Increment(); }
  void Handled(grpc::StatusCode code, double seconds);

 private:
  prometheus::Counter& started_;
  prometheus::Counter& received_;
  prometheus::Counter& sent_;
  prometheus::Histogram& seconds_;
  std::vector<prometheus::Counter*> handled_;  // By code.
};

// Counts the calls of a process's servers, by an interceptor. Made by main,
// outlives the servers.
class GrpcServerMetrics {
 public:
  // The services by their full names ("phalanx.v1.Inference"), whose protos
  // this program has; others' calls, and unknown methods, are not counted: a
  // label must not come from a client.
  GrpcServerMetrics(const std::vector<std::string>& services,
                    MetricRegistry& registry);

  // The standard health service, which comes without its proto.
  void AddHealth(MetricRegistry& registry);

  // Before BuildAndStart.
  void Watch(grpc::ServerBuilder& builder);

  // "/phalanx.v1.Inference/Generate"; null if it is not counted.
  GrpcMethodMetrics* Find(const std::string& method) const;

 private:
  void Add(const std::string& type, const std::string& service,
           const std::string& method, MetricRegistry& registry);

  std::map<std::string, std::unique_ptr<GrpcMethodMetrics>> methods_;
};

}  // namespace phalanx

#endif  // PHALANX_COMMON_METRICS_GRPC_METRICS_H_
