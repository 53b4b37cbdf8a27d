#include "worker/model/moe.h"

namespace phalanx {

void Moe::Forward(Tensor x, Tensor partial) {
  const auto [E, K, I, Is, renormalise, slices, whole] = shape_;
  const int64_t T = x.dims[0];

  Scratch::Frame frame(scratch_);
  Tensor logits = frame.F32(T, E);
  Routing routing{.expert = frame.I32(T, K),
                  .weight = frame.F32(T, K),
                  .offsets = frame.I32(E + 1),
                  .order = frame.I32(T * K)};
  Tensor hidden = frame.Act(T * K, I);
  Tensor shared_hidden = frame.Act(T, Is);
  Tensor shared_gate = frame.Act(T, 1);

  ops_.MatMul(x, w_.router, logits);
  ops_.Route(logits, renormalise, routing);
  // Experts may be on their way while the shared one is computed.
  experts_.Begin(layer_, routing);
  ops_.GateUp(x, w_.shared_gate_up, shared_hidden);
  ops_.MatMul(x, w_.shared_gate, shared_gate);

  const ExpertView view = experts_.Wait(layer_);
  routing.places = view.places;
  ops_.ExpertsGateUp(x, *view.gate_up, routing, hidden);
  ops_.ExpertsDown(hidden, *view.down, routing, shared_hidden, w_.shared_down,
                   shared_gate, slices, partial);
}

int64_t Moe::ScratchBytes(const MoeShape& shape, int64_t T, DType act) {
  const auto [E, K, I, Is, renormalise, slices, whole] = shape;
  return Scratch::Bytes(T * E, DType::kF32) +
         3 * Scratch::Bytes(T * K, DType::kF32) +
         Scratch::Bytes(E + 1, DType::kI32) + Scratch::Bytes(T * K * I, act) +
         Scratch::Bytes(T * Is, act) + Scratch::Bytes(T, act);
}

}  // namespace phalanx
