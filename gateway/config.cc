#include "gateway/config.h"

#include <CLI/CLI.hpp>

#include "common/version.h"

namespace phalanx {
namespace {

// Without TLS a listener is for this host only, unless somebody insists.
bool IsLocal(const std::string& address) {
  for (const char* prefix : {"127.", "localhost:", "[::1]:", "unix:"})
    if (address.rfind(prefix, 0) == 0) return true;
  return false;
}

void CheckBind(const char* flag, const std::string& address, bool insecure) {
  if (insecure || IsLocal(address)) return;
  throw CLI::ValidationError(
      flag, address +
                " is reachable from other hosts without TLS; must be a "
                "loopback address, or add --insecure-bind");
}

}  // namespace

int ParseGatewayFlags(int argc, char** argv, GatewayConfig& config) {
  CLI::App app(
      "phalanx-gateway: the public gRPC service. Keeps nothing but the "
      "requests "
      "in flight; any number of replicas may serve one group.");
  app.set_version_flag("--version", std::string("phalanx-gateway ") + kVersion);
  app.add_option("--model", config.model_dir,
                 "Folder with tokenizer.json and chat_template.jinja; without "
                 "a tokenizer in it, token ids are served; must be given");
  app.add_option("--model-name", config.model_name,
                 "What clients call it; the folder's name if not given");
  app.add_option("--address", config.address,
                 "Where clients come: HOST:PORT, port 0 takes a free one")
      ->capture_default_str();
  app.add_option("--admin-address", config.admin_address,
                 "Where operators come")
      ->capture_default_str();
  app.add_option("--metrics-listen", config.metrics_listen,
                 "Where to serve /metrics, /healthz and /readyz by HTTP: "
                 "HOST:PORT, port 0 takes a free one; off")
      ->capture_default_str();
  app.add_option("--workers", config.workers,
                 "Addresses of ranks 0, 1, ..., comma-separated; must be "
                 "given")
      ->delimiter(',');
  app.add_option("--max-requests", config.max_requests,
                 "Requests held at once, waiting ones included")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app.add_option("--seed", config.seed,
                 "Seeds of requests that bring none follow from this, in order "
                 "of arrival; drawn if not given");
  app.add_flag("--insecure-bind", config.insecure_bind,
               "Allow addresses that other hosts can reach, without TLS");
  try {
    app.parse(argc, argv);
    // Not ->required(): that would hide an unknown flag.
    if (config.model_dir.empty()) throw CLI::RequiredError("--model");
    if (config.workers.empty()) throw CLI::RequiredError("--workers");
    CheckBind("--address", config.address, config.insecure_bind);
    CheckBind("--admin-address", config.admin_address, config.insecure_bind);
    if (config.metrics_listen != "off")
      CheckBind("--metrics-listen", config.metrics_listen,
                config.insecure_bind);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  return -1;
}

}  // namespace phalanx
