#include "worker/model/mlp.h"

namespace phalanx {

void Mlp::Forward(Tensor x, Tensor partial) {
  Scratch::Frame frame(scratch_);
  Tensor hidden = frame.Act(x.dims[0], shape_.I);

  ops_.GateUp(x, w_.gate_up, hidden);
  ops_.MatMulSliced(hidden, w_.down, shape_.slices, partial);
}

int64_t Mlp::ScratchBytes(const MlpShape& shape, int64_t T, DType act) {
  return Scratch::Bytes(T * shape.I, act);
}

}  // namespace phalanx
