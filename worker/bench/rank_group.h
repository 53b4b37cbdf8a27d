#ifndef PHALANX_WORKER_BENCH_RANK_GROUP_H_
#define PHALANX_WORKER_BENCH_RANK_GROUP_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/bench/json_channel.h"
#include "worker/bench/rank_loop.h"
#include "worker/bench/rank_messages.h"

namespace phalanx {

// A group of ranks in processes of their own, seen by the process that measures
// with it. Idle ranks sleep. Ranks that are still there when it dies are
// killed, and they die with their parent.
class RankGroup {
 public:
  // Forks flags.tp_size ranks, which load while this returns. Not once the
  // process has threads.
  static absl::StatusOr<std::unique_ptr<RankGroup>> Start(
      const WorkerConfig& flags, const PrepareRank& prepare);
  ~RankGroup();

  // Waits until all have loaded. Any of these gives the first error of rank 0;
  // after one, only destruction is left.
  absl::StatusOr<RankFacts> AwaitLoaded();
  absl::StatusOr<PassResult> Run(const PassRequest& request);
  // Ends all ranks; the bytes that rank 0 held at most.
  absl::StatusOr<int64_t> End();

 private:
  explicit RankGroup(std::unique_ptr<JsonChannel> channel)
      : channel_(std::move(channel)) {}
  absl::StatusOr<nlohmann::json> Answer();

  const std::unique_ptr<JsonChannel> channel_;
  std::vector<pid_t> pids_;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_BENCH_RANK_GROUP_H_
