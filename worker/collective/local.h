#ifndef PHALANX_WORKER_COLLECTIVE_LOCAL_H_
#define PHALANX_WORKER_COLLECTIVE_LOCAL_H_

#include <memory>
#include <vector>

#include "worker/collective/collective.h"

namespace phalanx {

// The ranks 0..size-1 of a group of threads in this process, of epoch 0: for
// tests. Each object is used by one thread, like any Collective. One that is
// destroyed early ends the group for those that still need it.
// size is 1, 2, 4, 8 or 16 (CHECK).
std::vector<std::unique_ptr<Collective>> CreateLocalGroup(int size);

}  // namespace phalanx

#endif  // PHALANX_WORKER_COLLECTIVE_LOCAL_H_
