#include "worker/model/gated_delta_net.h"

#include <cmath>

namespace phalanx {

// The columns of the input products are q | k | v | z, and b | a, which are too
// few and too delicate to quantise; the convolution runs over q | k | v
// together. Source: model_spec.md 2.5.
void GatedDeltaNet::Forward(const Step& step, Tensor x, Tensor partial) {
  const auto [Nk, Nv, Dk, Dv, eps, slices] = shape_;
  const int64_t T = x.dims[0];
  const int64_t channels = 2 * Nk * Dk + Nv * Dv;

  Scratch::Frame frame(scratch_);
  Tensor fused = frame.Act(T, channels + Nv * Dv);
  Tensor gates = frame.Act(T, 2 * Nv);
  Tensor conv = frame.F32(T, channels);
  Tensor g = frame.F32(T, Nv);
  Tensor beta = frame.F32(T, Nv);
  Tensor delta = frame.F32(T, Nv * Dv);
  Tensor normed = frame.Act(T, Nv * Dv);

  ops_.MatMul(x, w_.in_proj, fused);
  ops_.MatMul(x, w_.ba_proj, gates);
  auto [mixed, z] = SplitColumns<2>(fused, {channels, Nv * Dv});
  auto [b, a] = SplitColumns<2>(gates, {Nv, Nv});

  ops_.ConvSilu(mixed, w_.conv, step.sequences, cache_.conv(layer_), conv);
  auto [q, k, v] = SplitColumns<3>(conv, {Nk * Dk, Nk * Dk, Nv * Dv});
  ops_.L2Norm(Heads(q, Nk), /*scale=*/1 / std::sqrt(static_cast<float>(Dk)),
              Heads(q, Nk));
  ops_.L2Norm(Heads(k, Nk), /*scale=*/1, Heads(k, Nk));
  ops_.GdnGates(a, b, w_.a_log, w_.dt_bias, g, beta);
  ops_.GatedDelta(Heads(q, Nk), Heads(k, Nk), Heads(v, Nv), g, beta,
                  step.sequences, cache_.state(layer_), Heads(delta, Nv));

  ops_.GatedRmsNorm(Heads(delta, Nv), Heads(z, Nv), w_.norm, eps,
                    Heads(normed, Nv));
  ops_.MatMulSliced(normed, w_.out_proj, slices, partial);
}

int64_t GatedDeltaNet::ScratchBytes(const GdnShape& shape, int64_t T,
                                    DType act) {
  const int64_t values = shape.Nv * shape.Dv;
  const int64_t channels = 2 * shape.Nk * shape.Dk + values;
  return Scratch::Bytes(T * (channels + values), act) +
         Scratch::Bytes(T * 2 * shape.Nv, act) +
         Scratch::Bytes(T * channels, DType::kF32) +
         2 * Scratch::Bytes(T * shape.Nv, DType::kF32) +
         Scratch::Bytes(T * values, DType::kF32) +
         Scratch::Bytes(T * values, act);
}

}  // namespace phalanx
