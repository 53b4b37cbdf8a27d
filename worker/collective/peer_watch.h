#ifndef PHALANX_WORKER_COLLECTIVE_PEER_WATCH_H_
#define PHALANX_WORKER_COLLECTIVE_PEER_WATCH_H_

#include <sys/types.h>

#include <array>
#include <cstdint>

#include "absl/status/status.h"
#include "worker/collective/sum_tree.h"

namespace phalanx {

// A process for good: its id may be used again, but not with the same start.
struct ProcessId {
  pid_t pid = 0;
  uint64_t start_ticks = 0;  // Clock ticks from boot to its start.
};

// This process.
ProcessId OwnProcessId();

// Knows which of a group's processes are dead, through one pidfd each. A
// process that is slow or stopped is not dead; a zombie is.
//
// Made by a rank at formation, used by its engine thread, dies with its object.
class PeerWatch {
 public:
  PeerWatch() { fds_.fill(-1); }
  ~PeerWatch();
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;

  // Watches `process` as `rank`, in 0..kMaxRanks-1. NOT_FOUND if there is no
  // such process (any more); INTERNAL names what the kernel refused.
  absl::Status Add(int rank, ProcessId process);

  bool watches(int rank) const { return fds_[rank] >= 0; }

  // The lowest watched rank whose process has ended; -1 if none. Never waits.
  int FirstDead() const;

 private:
  std::array<int, kMaxRanks> fds_;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_COLLECTIVE_PEER_WATCH_H_
