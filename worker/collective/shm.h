#ifndef PHALANX_WORKER_COLLECTIVE_SHM_H_
#define PHALANX_WORKER_COLLECTIVE_SHM_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/collective/collective.h"

namespace phalanx {

// One rank's view of a group that is about to form. All but `rank` and `spin`
// must be equal on every rank.
struct ShmConfig {
  std::string name;  // From NewShmName, on rank 0; sent to the others.
  int rank = 0;
  int size = 1;  // 1, 2, 4, 8 or 16.
  uint64_t epoch = 0;
  // Each rank has two slots of this size; longer messages go in pieces. A
  // multiple of 128, up to 64 MiB.
  int64_t slot_bytes = int64_t{1} << 20;
  // False where ranks x threads exceed the CPUs: waits then yield and sleep.
  bool spin = true;
  // For all ranks to have come. Forming is the only thing with a time limit.
  double timeout_seconds = 30;
  // Asked each millisecond until all have come: an error ends the forming for
  // all with it. Null: only time does.
  std::function<absl::Status()> called_off = nullptr;
};

// A name that no segment has, such as /phalanx-4711-3-9f2c...: rank 0 makes one
// for each epoch.
std::string NewShmName(uint64_t epoch);

// Forms the group of processes of one host through POSIX shared memory and
// returns when all ranks have mapped it; from then on it has no name, so
// nothing is left in /dev/shm however they end. Rank 0 creates the segment; the
// others may call before or after it. An error leaves no segment behind either.
//
// The result's calls as in collective.h. A peer whose process ends, by whatever
// signal, or that destroys its object, ends the group for those that still wait
// for it, within 0.2 s; one that is slow or stopped is waited for.
//
//   INVALID_ARGUMENT     the field of config that is wrong, and its limits
//   UNAVAILABLE          GROUP_LOST{rank}: it did not come in time, or it died
//   FAILED_PRECONDITION  the segment is of another epoch, size or slot_bytes,
//                        or the rank is taken
//   ALREADY_EXISTS       rank 0: the name is in use
//   RESOURCE_EXHAUSTED   /dev/shm has no room
//   PERMISSION_DENIED    the segment is not our user's alone
absl::StatusOr<std::unique_ptr<Collective>> JoinShmGroup(
    const ShmConfig& config);

}  // namespace phalanx

#endif  // PHALANX_WORKER_COLLECTIVE_SHM_H_
