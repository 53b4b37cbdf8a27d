#ifndef PHALANX_GATEWAY_CLI_SERVE_H_
#define PHALANX_GATEWAY_CLI_SERVE_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

namespace phalanx {

// The flags of `phalanx serve`; 0 or empty means "choose".
struct ServeOptions {
  std::string model_dir;
  int tp_size = 1;
  std::string moe_mode = "auto";
  std::string offload_bank = "sharded";
  int64_t expert_slots = 0;
  std::string pack_cache;     // Empty: nowhere.
  int64_t memory_budget = 0;  // Of each rank, bytes.
  std::string device = "cpu";
  std::string numerics = "auto";
  std::string weights = "bf16";
  std::string address = "127.0.0.1:0";
  std::string admin_address = "127.0.0.1:0";
  std::string metrics_listen = "127.0.0.1:0";
  int64_t max_running = 16;
  int64_t max_model_len = 0;
  int64_t prefill_chunk = 512;
  int64_t kv_blocks = 0;
  int threads = 0;
  double step_timeout_seconds = 10;
  double drain_delay_seconds = 0;
  double drain_timeout_seconds = 30;
  std::optional<uint64_t> seed;
  bool insecure_bind = false;
};

void AddServeFlags(CLI::App& verb, ServeOptions& options);

// The whole service on this machine: a gateway and the ranks of one group as
// children of this process. Prints one line `ready ...` to stdout when a token
// was generated on every rank; returns the exit code after SIGTERM, SIGINT, or
// a child's death at start. The first signal drains, the second does not. Main
// thread.
int RunServe(const ServeOptions& options);

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_CLI_SERVE_H_
