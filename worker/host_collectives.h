#ifndef PHALANX_WORKER_HOST_COLLECTIVES_H_
#define PHALANX_WORKER_HOST_COLLECTIVES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/group/identity.h"
#include "worker/metrics/rank_metrics.h"

namespace phalanx {

// Collectives of processes of one host, through shared memory; a group of one
// needs none. Made by main; used by the engine thread.
class HostCollectives final : public CollectiveFactory {
 public:
  // Every collective is watched by `metrics`, which outlives it. `spin`: the
  // ranks have a processor for each of their threads.
  HostCollectives(int rank, int size, bool spin, RankMetrics& metrics)
      : rank_(rank), size_(size), spin_(spin), metrics_(metrics) {}

  // The slots of one rank in the shared segment.
  static int64_t BytesPerRank(int size);

  std::string transport() const override { return "shm"; }
  std::string NewId(uint64_t epoch) override;
  absl::StatusOr<std::unique_ptr<Collective>> Join(
      uint64_t epoch, const std::string& unique_id,
      const std::function<absl::Status()>& called_off) override;

 private:
  const int rank_;
  const int size_;
  const bool spin_;
  RankMetrics& metrics_;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_HOST_COLLECTIVES_H_
