#ifndef PHALANX_COMMON_METRICS_METRICS_SERVER_H_
#define PHALANX_COMMON_METRICS_METRICS_SERVER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/metrics/metric_registry.h"

namespace phalanx {

// Plain HTTP for Prometheus and for probes:
//   /metrics  the registry's text
//   /healthz  200 as long as the process answers
//   /readyz   200 when it serves; else 503 and why not
// Everything else is 404. No TLS and no IPv6 (civetweb 1.15 as Debian builds
// it has neither). Made by main, has two threads of its own and one that
// accepts; its destructor waits for requests under way.
class MetricsServer {
 public:
  // `address` is HOST:PORT, IPv4; port 0 takes a free one. `ready` says OK or
  // why not; called on the server's threads. Both arguments outlive the server.
  // INVALID_ARGUMENT names what is no address, UNAVAILABLE what cannot be
  // bound; `flag` is the name of the address in messages.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(
      const char* flag, const std::string& address,
      const MetricRegistry& registry, std::function<absl::Status()> ready);
  virtual ~MetricsServer() = default;

  // HOST:PORT with the port that was taken.
  virtual const std::string& address() const = 0;
};

}  // namespace phalanx

#endif  // PHALANX_COMMON_METRICS_METRICS_SERVER_H_
