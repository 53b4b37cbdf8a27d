#ifndef PHALANX_GATEWAY_CONFIG_H_
#define PHALANX_GATEWAY_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gateway/router/router.h"

namespace phalanx {

// What phalanx-gateway is told on its command line.
struct GatewayConfig {
  std::string model_dir;   // For the tokenizer and the chat template.
  std::string model_name;  // Empty: the folder's name.
  std::string address = "127.0.0.1:0";
  std::string admin_address = "127.0.0.1:0";
  std::string metrics_listen = "127.0.0.1:0";  // "off": nowhere.
  std::vector<GroupSpec> groups;               // At least one.
  int64_t max_requests = 1024;
  double drain_delay_seconds = 5;
  double drain_timeout_seconds = 300;
  // How many groups a stream may lose, how long it waits for one, and the file
  // with the key of its tokens; empty: a key of this process alone.
  int64_t resume_max = 3;
  double resume_wait_seconds = 30;
  std::string resume_key_file;
  std::optional<uint64_t> seed;  // Of requests that bring none; else drawn.
  bool insecure_bind = false;
};

// Reads the command line. On success the return value is -1; else it is the
// exit code of a process that has said all there is to say.
int ParseGatewayFlags(int argc, char** argv, GatewayConfig& config);

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_CONFIG_H_
