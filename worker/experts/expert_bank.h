#ifndef PHALANX_WORKER_EXPERTS_EXPERT_BANK_H_
#define PHALANX_WORKER_EXPERTS_EXPERT_BANK_H_

#include <cstdint>

#include "kernels/packed_weight.h"

namespace phalanx {

// The slots of a device: as many matrices as there are slots, in two stacks of
// equal count.
struct ExpertSlots {
  PackedWeight gate_up;  // kGateUp [2 expert_width, H].
  PackedWeight down;     // kPlain [H, expert_width].
};

// The routed experts of a model on the host, one copy for all ranks of it
// (files that every rank maps), of which a rank fetches its share. Const once
// made; any thread, several at once for different slots.
class ExpertBank {
 public:
  virtual ~ExpertBank() = default;

  // Copies this rank's share of an expert into matrix `slot` of both stacks.
  // Blocks until it is there. The bank is mapped memory: a disk that fails
  // raises SIGBUS, as it does for the checkpoint.
  virtual void Fetch(int layer, int expert, int64_t slot,
                     ExpertSlots& slots) const = 0;

  // A hint that Fetch will come for this expert soon. Returns at once.
  virtual void WillNeed(int layer, int expert) const = 0;

  // What one Fetch puts into a slot, and the bank's size on the host.
  virtual int64_t expert_bytes() const = 0;
  virtual int64_t bytes() const = 0;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_EXPERTS_EXPERT_BANK_H_
