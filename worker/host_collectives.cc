#include "worker/host_collectives.h"

#include <utility>

#include "common/status.h"
#include "worker/collective/local.h"
#include "worker/collective/shm.h"

namespace phalanx {
namespace {

// How long the ranks of a new epoch wait for each other.
constexpr double kMeetSeconds = 10;

}  // namespace

int64_t HostCollectives::BytesPerRank(int size) {
  return size == 1 ? 0 : 2 * ShmConfig().slot_bytes;
}

std::string HostCollectives::NewId(uint64_t epoch) { return NewShmName(epoch); }

absl::StatusOr<std::unique_ptr<Collective>> HostCollectives::Join(
    uint64_t epoch, const std::string& unique_id,
    const std::function<absl::Status()>& called_off) {
  if (size_ == 1) return std::move(CreateLocalGroup(1).front());
  ShmConfig config;
  config.name = unique_id;
  config.rank = rank_;
  config.size = size_;
  config.epoch = epoch;
  config.spin = spin_;
  config.timeout_seconds = kMeetSeconds;
  config.called_off = called_off;
  ASSIGN_OR_RETURN(std::unique_ptr<Collective> joined, JoinShmGroup(config));
  return metrics_.Watch(std::move(joined));
}

}  // namespace phalanx
