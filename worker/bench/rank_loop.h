#ifndef PHALANX_WORKER_BENCH_RANK_LOOP_H_
#define PHALANX_WORKER_BENCH_RANK_LOOP_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "worker/bench/cases.h"
#include "worker/bench/json_channel.h"
#include "worker/bench/work.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/model_config.h"
#include "worker/config.h"
#include "worker/cpu_share.h"
#include "worker/rank_plan.h"

namespace phalanx {

// What a rank has before it loads, as the daemon makes it.
struct BenchRank {
  ModelConfig config;
  std::optional<Checkpoint> checkpoint;  // There is one.
  std::string model_digest;
  WeightFormat format = WeightFormat::kBf16;
  CpuShare cpus;
  std::unique_ptr<Backend> backend;
  RankPlan plan;
};
using PrepareRank =
    std::function<absl::StatusOr<BenchRank>(const WorkerConfig& flags)>;

// What rank 0 is asked over its channel, one after another; it answers each. An
// answer {"error": TEXT} is its last.
struct PassRequest {
  BenchCase c;
  double seconds = 0;   // As many passes as take about so long.
  uint64_t seed = 0;    // Of the ids.
  bool timing = false;  // By part, which disturbs.
};
// A pass is one step of a decode, or all of a prefill.
struct PassResult {
  int64_t passes = 0;
  double seconds = 0;  // Of all passes, as are the others.
  Work work;
  PartSeconds parts = {};
};
// Its first answer, to nothing.
struct RankFacts {
  std::string kernel_family;
  std::string instruction_set;
  std::string moe_mode;
  std::string weights;
  int threads = 0;
  double load_seconds = 0;
  int64_t planned_bytes = 0;
};
// The last, to {"end": true}, is {"peak_bytes": N}: what it held at most, as
// the kernel counts it, without mapped files.

nlohmann::json ToJson(const PassRequest& request);
nlohmann::json ToJson(const PassResult& result);
nlohmann::json ToJson(const RankFacts& facts);
PassRequest PassRequestOf(const nlohmann::json& json);
PassResult PassResultOf(const nlohmann::json& json);
RankFacts RankFactsOf(const nlohmann::json& json);

// One rank's life in a process of its own, which had no other threads: meets
// its group under `shm_name`, loads as a served rank does, fills its caches
// with noise, and runs what rank 0 is asked until that is told to end. Returns
// the exit code. `channel` is rank 0's; null on others, which tell errors on
// stderr.
int RunBenchRank(const WorkerConfig& flags, const PrepareRank& prepare,
                 const std::string& shm_name, JsonChannel* channel);

}  // namespace phalanx

#endif  // PHALANX_WORKER_BENCH_RANK_LOOP_H_
