#include "worker/model/attention.h"

#include <cmath>

namespace phalanx {

// q, gate, k and v come from one product whose columns the loader has put in
// that order. Source: model_spec.md 2.3.
void GatedAttention::Forward(const Step& step, Tensor x, Tensor partial) {
  const auto [Nq, Nk, D, H, eps, slices] = shape_;
  const int64_t T = x.dims[0];

  Scratch::Frame frame(scratch_);
  Tensor fused = frame.Act(T, (2 * Nq + 2 * Nk) * D);
  Tensor out = frame.F32(T, Nq * D);
  Tensor gated = frame.Act(T, Nq * D);

  ops_.MatMul(x, w_.qgkv, fused);
  auto [q, gate, k, v] =
      SplitColumns<4>(fused, {Nq * D, Nq * D, Nk * D, Nk * D});

  ops_.RmsNorm(Heads(q, Nq), w_.q_norm, eps, Heads(q, Nq));
  ops_.RmsNorm(Heads(k, Nk), w_.k_norm, eps, Heads(k, Nk));
  ops_.Rope(step.positions, inv_freq_, Heads(q, Nq));
  ops_.Rope(step.positions, inv_freq_, Heads(k, Nk));

  const Tensor keys = cache_.keys(layer_);
  const Tensor values = cache_.values(layer_);
  ops_.StoreKv(Heads(k, Nk), Heads(v, Nk), step.kv_places, keys, values);
  ops_.PagedAttention(Heads(q, Nq), keys, values, step.sequences,
                      /*scale=*/1 / std::sqrt(static_cast<float>(D)),
                      Heads(out, Nq));

  ops_.MulSigmoid(out, gate, gated);
  ops_.MatMulSliced(gated, w_.o, slices, partial);
}

int64_t GatedAttention::ScratchBytes(const AttentionShape& shape, int64_t T,
                                     DType act) {
  const int64_t queries = T * shape.Nq * shape.D;
  return Scratch::Bytes(2 * queries + 2 * T * shape.Nk * shape.D, act) +
         Scratch::Bytes(queries, DType::kF32) + Scratch::Bytes(queries, act);
}

}  // namespace phalanx
