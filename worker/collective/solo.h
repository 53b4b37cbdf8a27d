#ifndef PHALANX_WORKER_COLLECTIVE_SOLO_H_
#define PHALANX_WORKER_COLLECTIVE_SOLO_H_

#include <memory>

#include "worker/collective/collective.h"

namespace phalanx {

// The only rank of a group of one, of epoch 0: it waits for nobody and shows
// nothing, so a call is at most one pass over what it is given.
std::unique_ptr<Collective> CreateSoloCollective();

}  // namespace phalanx

#endif  // PHALANX_WORKER_COLLECTIVE_SOLO_H_
