#ifndef PHALANX_WORKER_CONFIG_H_
#define PHALANX_WORKER_CONFIG_H_

#include <cstdint>
#include <string>

namespace CLI {
class App;
}

namespace phalanx {

// What phalanx-worker is told on its command line. 0 means "choose".
struct WorkerConfig {
  std::string model_dir;
  int rank = 0;
  int tp_size = 1;
  std::string listen = "127.0.0.1:0";
  std::string leader;  // Where rank 0 listens; needed by ranks above 0.
  std::string metrics_listen = "127.0.0.1:0";  // "off": nowhere.
  std::string moe_mode = "auto";               // auto, resident, offload.
  std::string offload_bank = "sharded";        // full, sharded.
  int64_t expert_slots = 0;                    // In offload.
  std::string pack_cache;     // Where a packed bank is kept; empty: nowhere.
  int64_t memory_budget = 0;  // Bytes; 0: an equal part of what is free.
  std::string device = "cpu";
  std::string numerics = "auto";  // auto, fma.
  std::string weights = "auto";   // auto, or kWeightFormatNames.
  int64_t max_running = 16;
  int64_t max_waiting = 256;
  int64_t max_model_len = 0;  // 0: what the model allows.
  int64_t prefill_chunk = 512;
  int64_t kv_blocks =
      0;            // 0: max_running whole contexts, if the budget allows.
  int threads = 0;  // 0: the cores allowed / tp_size.
  uint64_t epoch_floor = 0;
  double step_timeout_seconds = 10;  // Of a decode step.
  double drain_timeout_seconds = 300;
};

// Reads the command line. On success the return value is -1; else it is the
// exit code of a process that has said all there is to say (--help, --version,
// a flag that is unknown or out of range, named with its value and limits).
int ParseWorkerFlags(int argc, char** argv, WorkerConfig& config);

// Those of its flags that another command of this program may have, too: what
// computes, and where weights and experts live.
void AddComputeFlags(CLI::App& app, WorkerConfig& config);
void AddMemoryFlags(CLI::App& app, WorkerConfig& config);

}  // namespace phalanx

#endif  // PHALANX_WORKER_CONFIG_H_
