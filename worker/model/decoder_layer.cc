#include "worker/model/decoder_layer.h"

namespace phalanx {

void DecoderLayer::Forward(const Step& step, Collective& comm, Tensor h) {
  const int64_t T = h.dims[0];
  const int64_t H = h.dims[1];

  Scratch::Frame frame(scratch_);
  Tensor x = frame.Act(T, H);
  Tensor partial = frame.F32(T, H);
  Tensor delta = frame.Act(T, H);

  ops_.RmsNorm(h, w_.mixer_norm, eps_, x);
  std::visit([&](auto& mixer) { mixer.Forward(step, x, partial); }, mixer_);
  comm.AllReduceSum(partial, delta);
  ops_.Add(h, delta, h);

  ops_.RmsNorm(h, w_.feed_forward_norm, eps_, x);
  std::visit([&](auto& part) { part.Forward(x, partial); }, feed_forward_);
  const Moe* const moe = std::get_if<Moe>(&feed_forward_);
  if (moe != nullptr && moe->whole())
    ops_.Round(partial, delta);
  else
    comm.AllReduceSum(partial, delta);
  ops_.Add(h, delta, h);
}

int64_t DecoderLayer::ScratchBytes(int64_t H, int64_t T, DType act) {
  return 2 * Scratch::Bytes(T * H, act) + Scratch::Bytes(T * H, DType::kF32);
}

}  // namespace phalanx
