#include "worker/config.h"

#include <CLI/CLI.hpp>

#include "common/byte_size.h"
#include "common/version.h"

namespace phalanx {
namespace {

void AddIdentity(CLI::App& app, WorkerConfig& config) {
  app.add_option("--model", config.model_dir,
                 "Folder with config.json and *.safetensors; must be given");
  app.add_option("--rank", config.rank, "This rank; 0 schedules")
      ->check(CLI::Range(0, 63))
      ->capture_default_str();
  app.add_option("--tp-size", config.tp_size, "Ranks of the group")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--listen", config.listen,
                 "Where to serve gRPC: HOST:PORT or unix:PATH")
      ->capture_default_str();
  app.add_option("--leader", config.leader, "Where rank 0 listens");
  app.add_option("--metrics-listen", config.metrics_listen,
                 "Where to serve /metrics, /healthz and /readyz by HTTP: "
                 "HOST:PORT, port 0 takes a free one; off")
      ->capture_default_str();
  app.add_option("--epoch-floor", config.epoch_floor,
                 "The first epoch is above this");
}

void AddEnds(CLI::App& app, WorkerConfig& config) {
  app.add_option("--step-timeout", config.step_timeout_seconds,
                 "Seconds that a step may take before its group is given up; a "
                 "step with more rows than max-running, as many times longer")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  app.add_option("--drain-timeout", config.drain_timeout_seconds,
                 "Seconds that SIGTERM leaves to what runs; a second SIGTERM "
                 "leaves none")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
}

void AddLimits(CLI::App& app, WorkerConfig& config) {
  app.add_option("--max-running", config.max_running,
                 "Sequences computed at once")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--max-waiting", config.max_waiting,
                 "Requests in the queue beyond those")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app.add_option("--max-model-len", config.max_model_len,
                 "Tokens of prompt and answer; 0: what the model allows")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 24))
      ->capture_default_str();
  app.add_option("--prefill-chunk", config.prefill_chunk,
                 "Prompt tokens of one sequence in a step")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  app.add_option("--kv-blocks", config.kv_blocks,
                 "KV blocks of 64 tokens; 0: max-running whole contexts, or "
                 "what the memory budget leaves")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 31))
      ->capture_default_str();
}

}  // namespace

void AddComputeFlags(CLI::App& app, WorkerConfig& config) {
  app.add_option("--device", config.device,
                 "What computes; cuda needs libphalanx_cuda.so beside this "
                 "program, and has not every operation yet")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  app.add_option("--numerics", config.numerics,
                 "Kernel family: auto for this processor, fma for bits that "
                 "are equal on all")
      ->check(CLI::IsMember({"auto", "fma"}))
      ->capture_default_str();
  app.add_option("--weights", config.weights,
                 "What large matrices are held in: auto is what the model is "
                 "stored in; int8 and int4 are made from bf16 as it loads")
      ->check(CLI::IsMember({"auto", "bf16", "int8", "int4"}))
      ->capture_default_str();
  app.add_option("--threads", config.threads,
                 "Threads of this rank; 0: the cores allowed / tp-size")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
}

void AddMemoryFlags(CLI::App& app, WorkerConfig& config) {
  app.add_option("--moe-mode", config.moe_mode,
                 "Where experts live; auto: resident if they fit, else offload")
      ->check(CLI::IsMember({"auto", "resident", "offload"}))
      ->capture_default_str();
  app.add_option("--offload-bank", config.offload_bank,
                 "What a rank takes of an expert in offload")
      ->check(CLI::IsMember({"full", "sharded"}))
      ->capture_default_str();
  app.add_option("--expert-slots", config.expert_slots,
                 "Experts held at once in offload, at least those of a layer; "
                 "0: choose")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 31))
      ->capture_default_str();
  app.add_option("--pack-cache", config.pack_cache,
                 "Folder that keeps offloaded experts as this processor likes "
                 "them; none if not given");
  app.add_option_function<std::string>(
      "--memory-budget",
      [&config](const std::string& text) {
        const auto bytes = ParseByteSize("the size", text);
        if (!bytes.ok())
          throw CLI::ValidationError("--memory-budget",
                                     std::string(bytes.status().message()));
        config.memory_budget = *bytes;
      },
      "What this rank may hold of everything, such as 16GiB; 0.9 of what is "
      "free / tp-size if not given");
}

int ParseWorkerFlags(int argc, char** argv, WorkerConfig& config) {
  CLI::App app(
      "phalanx-worker: one rank of a tensor-parallel group.\n"
      "Started by `phalanx serve`, one for each GPU or NUMA node. Ranks find "
      "rank 0, agree on an epoch, and run every step together.\n"
      "SIGTERM drains and exits 0, a second one ends at once; SIGQUIT writes a "
      "line of diagnostics.\n"
      "`phalanx-worker plan --help`: what a card would hold.");
  app.set_version_flag("--version", std::string("phalanx-worker ") + kVersion);
  AddIdentity(app, config);
  AddComputeFlags(app, config);
  AddMemoryFlags(app, config);
  AddLimits(app, config);
  AddEnds(app, config);
  try {
    app.parse(argc, argv);
    // Not ->required(): that would hide an unknown flag.
    if (config.model_dir.empty()) throw CLI::RequiredError("--model");
    if (config.rank >= config.tp_size)
      throw CLI::ValidationError("--rank", std::to_string(config.rank) +
                                               " must be below --tp-size " +
                                               std::to_string(config.tp_size));
    if (config.rank > 0 && config.leader.empty())
      throw CLI::ValidationError("--leader", "needed by ranks above 0");
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  return -1;
}

}  // namespace phalanx
