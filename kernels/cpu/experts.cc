#include "kernels/cpu/experts.h"

#include "kernels/cpu/experts_down.h"
#include "kernels/cpu/kernels.h"

namespace phalanx::PHALANX_ISA {

void ExpertsGateUp(ThreadPool& pool, Tensor x, const PackedWeight& w,
                   Routing routing, Tensor hidden) {
  ExpertsGateUpAs<FmaDot>(pool, x, w, routing, hidden);
}

void ExpertsDown(ThreadPool& pool, Tensor hidden, const PackedWeight& w,
                 Routing routing, Tensor shared_hidden,
                 const PackedWeight& shared_w, Tensor shared_gate, int slices,
                 Tensor y) {
  ExpertsDownAs<FmaDot>(pool, hidden, w, routing, shared_hidden, shared_w,
                        shared_gate, slices, y);
}

}  // namespace phalanx::PHALANX_ISA
