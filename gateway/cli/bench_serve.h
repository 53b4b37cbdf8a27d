#ifndef PHALANX_GATEWAY_CLI_BENCH_SERVE_H_
#define PHALANX_GATEWAY_CLI_BENCH_SERVE_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

namespace phalanx {

// The flags of `phalanx bench serve`.
struct BenchOptions {
  std::string what;  // "serve"; others are the worker's (worker_verb.h).
  std::string address;
  std::optional<double> rate;
  std::optional<int64_t> concurrency;
  std::optional<int64_t> requests;
  std::optional<double> duration_seconds;
  int64_t warmup_requests = 0;
  uint64_t seed = 0;
  std::optional<int64_t> prompt_tokens;
  std::optional<int64_t> output_tokens;
  int64_t shared_prefix_tokens = 0;
  bool text = false;
  double cancel_share = 0;
  std::optional<double> temperature;
  std::string ignore_eos = "true";
  std::optional<double> slo_ttft_ms;
  std::optional<double> slo_itl_ms;
  double timeout_seconds = 600;
  bool json = false;
};

void AddBenchFlags(CLI::App& verb, BenchOptions& options);

// Puts a running service under load and prints what came of it. The exit code:
// 0; 1 if a request failed or nobody answers; 130 after Ctrl-C, which ends it
// early but for the report. Main thread, before any other.
int RunBench(const BenchOptions& options);

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_CLI_BENCH_SERVE_H_
