#ifndef PHALANX_GATEWAY_CLI_BENCH_REPORT_H_
#define PHALANX_GATEWAY_CLI_BENCH_REPORT_H_

#include <string>

#include "gateway/cli/bench_client.h"
#include "gateway/cli/bench_record.h"
#include "gateway/cli/bench_workload.h"
#include "inference.pb.h"

namespace phalanx {

// All that a report tells of a run.
struct BenchReport {
  std::string address;
  v1::GetModelResponse model;
  WorkloadConfig workload;
  BenchLoad load;
  BenchSettings settings;
  int64_t warmup_requests = 0;
  Slo slo;
  BenchResult result;
  bool interrupted = false;  // Ended by Ctrl-C: of what was done by then.
};

// For a person, lines of at most 80 columns.
std::string BenchText(const BenchReport& report);

// One JSON object on one line, without its end. Keys:
//   address, model, numerics_id, device, moe_mode, tp_size, interrupted
//   load      {loop: "open"|"closed", rate, concurrency, requests,
//             duration_seconds, warmup_requests}; what is not bounded is null
//   workload  {seed, prompt_tokens, output_tokens, shared_prefix_tokens, text,
//             cancel_share, temperature, ignore_eos}; lengths that were drawn
//             are null
//   requests  {ok, failed, cancelled, interrupted}
//   errors    {"UNAVAILABLE/GROUP_LOST": count, ...}
//   seconds, requests_per_second (that ended well), output_tokens_per_second
//   tokens    {prompt, cached, output}
//   resumes, preemptions
//   ttft_ms, inter_token_ms, time_per_output_token_ms, end_to_end_ms: each
//             {count, mean, p50, p90, p95, p99, max}
//   goodput   {slo_ttft_ms, slo_itl_ms, requests, share,
//             requests_per_second}; null where no SLO was given. The share is
//             of those that ended well or failed.
std::string BenchJson(const BenchReport& report);

// How far a run is, at most `columns` wide.
std::string BenchProgressText(const BenchProgress& progress,
                              const BenchLoad& load, int columns);

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_CLI_BENCH_REPORT_H_
