#ifndef PHALANX_WORKER_GROUP_IDENTITY_H_
#define PHALANX_WORKER_GROUP_IDENTITY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/collective/collective.h"

namespace phalanx {

// What one rank is and holds. Ranks whose words differ do not form a group.
struct RankIdentity {
  int rank = 0;
  int tp_size = 1;
  std::string version;
  std::string address;  // Where its server listens.
  std::string model_digest;
  std::string numerics_id;
  std::string slice_plan;
  int64_t pid = 0;
  int64_t kv_blocks = 0;
  int64_t state_slots = 0;
};

// Makes the collective of one epoch; the composition root knows which kind.
class CollectiveFactory {
 public:
  virtual ~CollectiveFactory() = default;

  virtual std::string transport() const = 0;  // "shm", "nccl", "local".

  // Rank 0: what the others need to find the group of a new epoch.
  virtual std::string NewId(uint64_t epoch) = 0;

  // Every rank: blocks until all ranks of the epoch have come, or for some
  // seconds. UNAVAILABLE if one did not, or with what `called_off`, asked every
  // now and then, says.
  virtual absl::StatusOr<std::unique_ptr<Collective>> Join(
      uint64_t epoch, const std::string& unique_id,
      const std::function<absl::Status()>& called_off) = 0;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_GROUP_IDENTITY_H_
