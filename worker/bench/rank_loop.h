#ifndef PHALANX_WORKER_BENCH_RANK_LOOP_H_
#define PHALANX_WORKER_BENCH_RANK_LOOP_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "worker/bench/json_channel.h"
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

// One rank's life in a process of its own, which had no other threads: meets
// its group under `shm_name`, loads as a served rank does, fills its caches
// with noise, and runs what rank 0 is asked until that is told to end. Returns
// the exit code. `channel` is rank 0's; null on others, which tell errors on
// stderr.
int RunBenchRank(const WorkerConfig& flags, const PrepareRank& prepare,
                 const std::string& shm_name, JsonChannel* channel);

}  // namespace phalanx

#endif  // PHALANX_WORKER_BENCH_RANK_LOOP_H_
