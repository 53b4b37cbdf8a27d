#ifndef PHALANX_WORKER_EXPERTS_EXPERT_SOURCE_H_
#define PHALANX_WORKER_EXPERTS_EXPERT_SOURCE_H_

#include "kernels/packed_weight.h"
#include "kernels/sequences.h"
#include "kernels/tensor.h"

namespace phalanx {

// The routed experts of one layer as Ops::ExpertsGateUp and ExpertsDown read
// them. `places` goes into Routing::places.
struct ExpertView {
  const PackedWeight* gate_up = nullptr;
  const PackedWeight* down = nullptr;
  Tensor places;  // [E] i32, or null data: expert e is matrix e.
};

// Where the model gets routed experts from. Two calls a layer, so that what
// does not need the experts runs between them. Outlives the model; the engine
// thread's.
class ExpertSource {
 public:
  virtual ~ExpertSource() = default;

  // `routing` of this layer has been enqueued: what it needs is fetched from
  // here on. May wait until it is computed, but not for what it needs. Layers
  // come in any order: a step may be given up anywhere.
  virtual void Begin(int layer, const Routing& routing) = 0;
  // Returns once every expert that the routing of Begin names is in place.
  // Valid, and the experts stay, until Begin is called again.
  virtual ExpertView Wait(int layer) = 0;

  // Whether what follows counts in statistics: the work of a warm-up does not.
  // Between steps.
  virtual void Count(bool) {}
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_EXPERTS_EXPERT_SOURCE_H_
