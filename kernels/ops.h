#ifndef PHALANX_KERNELS_OPS_H_
#define PHALANX_KERNELS_OPS_H_

// Every operation the model may use: the whole contract between worker/model
// and a backend. Implemented by each backend (reference, cpu, cuda) and checked
// by one suite, tests/kernels/ops_contract_test.cc.
//
// Letters: T tokens in the step, H hidden size, D head size, Nq/Nk query and
// key-value heads on this rank, E experts, K experts per token, S sequences, I
// width of an expert on this rank; Nk, Nv, Dk, Dv heads of the delta rule.
//
// "act" is Backend::activation_dtype(): bf16 in a served backend, f32 in the
// reference. A result of type act is computed in f32 and rounded once, on
// store.
//
// Calls enqueue work and return; nothing is visible to the host until
// Backend::Synchronize(), which also reports any device error as a Status.
// A wrong shape or type is a bug in the caller and CHECK-fails at once. T = 0
// does nothing. Rows may be further apart than they are wide (Tensor).
//
// The rules of exactness (design.md section 3) bind every op of a served
// backend: each output is one chain of operations that depends on the shape of
// the model alone, never on T, the neighbours or the threads.

#include <cstdint>

#include "kernels/packed_weight.h"
#include "kernels/sequences.h"
#include "kernels/tensor.h"

namespace phalanx {

class Ops {
 public:
  virtual ~Ops() = default;

  // --- Rows in and out -----------------------------------------------------

  // y[t] = table[ids[t] - first_id] where this rank owns that row, else zeros.
  //   ids [T] i32; table [R, H] bf16; y [T, H] act
  virtual void Embed(Tensor ids, Tensor table, int64_t first_id, Tensor y) = 0;

  // Copies each token's row from the rank that owns it, after an all-gather.
  //   y[t] = gathered[ids[t] / rows_per_rank][t]
  //   ids [T] i32; gathered [N, T, H] act; y [T, H] act
  virtual void SelectOwner(Tensor ids, int64_t rows_per_rank, Tensor gathered,
                           Tensor y) = 0;

  // y[r] = x[rows[r]].   x [T, H] act; rows [R] i32; y [R, H] act
  virtual void GatherRows(Tensor x, Tensor rows, Tensor y) = 0;

  // y = x, bit for bit. All elements in common, and then it does nothing, or
  // none.   x, y [T, n] of one type, whichever
  virtual void Copy(Tensor x, Tensor y) = 0;

  // --- Products ------------------------------------------------------------

  // y = x W^T. Each output is one f32 chain over cols in order, from 0.
  //   x [T, cols] act; w kPlain, count 1; y [T, rows] act or f32
  virtual void MatMul(Tensor x, const PackedWeight& w, Tensor y) = 0;

  // y = silu(x G^T) * (x U^T); both products are rounded to act first, then
  // silu and the multiplication run in f32.
  //   x [T, cols] act; w kGateUp, count 1; y [T, rows / 2] act
  virtual void GateUp(Tensor x, const PackedWeight& w, Tensor y) = 0;

  // This rank's term of a product that tensor parallelism splits: cols is cut
  // into `slices` equal parts, each summed on its own as in MatMul, and the
  // sums are added in f32 by a balanced tree of neighbours: (0+1)+(2+3) ...
  //   x [T, cols] act; w kPlain, count 1; y [T, rows] f32
  //   slices: 1, 2, 4 or 8; cols / slices is even
  virtual void MatMulSliced(Tensor x, const PackedWeight& w, int slices,
                            Tensor y) = 0;

  // --- Mixture of experts --------------------------------------------------

  // The K largest logits of each token (ties: lower id), their softmax weights
  // over all E, divided by their sum if `renormalise`, and the tokens in order
  // of expert. K is routing.expert.dims[1].
  //   logits [T, E] f32
  virtual void Route(Tensor logits, bool renormalise, Routing routing) = 0;

  // GateUp of each token by each of its experts.
  //   hidden[t * K + j] = GateUp(x[t], w[place(expert[t, j])])
  //   x [T, cols] act; w kGateUp; hidden [T * K, rows / 2] act
  // Expert e is matrix place(e) = routing.places[e] of w, or e where `places`
  // is not set and w has E matrices. Experts without a token need no place.
  // Each expert's weights are read once for all its tokens.
  virtual void ExpertsGateUp(Tensor x, const PackedWeight& w, Routing routing,
                             Tensor hidden) = 0;

  // Down products, weighted and summed: routed experts in ascending id, the
  // shared expert last, inside each slice; then the tree, as in MatMulSliced.
  //
  //   plane_s[t] = sum_j weight[t,j] * (hidden[tK+j] W_e^T)_s
  //              + sigmoid(shared_gate[t]) * (shared_hidden[t] Ws^T)_s
  //
  // The sum is a chain of f32 fused multiply-adds from 0 in that order; single
  // experts' outputs are never rounded.
  //   hidden [T * K, I] act; w kPlain [..][H, I], placed as in ExpertsGateUp;
  //   shared_hidden [T, Is] act;
  //   shared_w kPlain [H, Is]; shared_gate [T, 1] act, before the sigmoid;
  //   y [T, H] f32; I / slices and Is / slices are even
  virtual void ExpertsDown(Tensor hidden, const PackedWeight& w,
                           Routing routing, Tensor shared_hidden,
                           const PackedWeight& shared_w, Tensor shared_gate,
                           int slices, Tensor y) = 0;

  // --- Norms and elementwise ------------------------------------------------

  // Root-mean-square normalisation of each row (of each head, if x is rank 3).
  //   y = x / sqrt(mean(x^2) + eps) * w
  //   x, y [T, D] or [T, N, D] act, y may alias x; w [D] f32, with the
  //   checkpoint's "1 + w" folded in at load
  // Source: Zhang and Sennrich 2019, arXiv:1910.07467.
  virtual void RmsNorm(Tensor x, Tensor w, float eps, Tensor y) = 0;

  // y = x / sqrt(mean(x^2) + eps) * w * silu(z), each head by itself.
  //   x [T, N, D] f32; z [T, N, D] act; w [D] f32; y [T, N, D] act
  virtual void GatedRmsNorm(Tensor x, Tensor z, Tensor w, float eps,
                            Tensor y) = 0;

  // y = x / sqrt(sum(x^2) + 1e-6) * scale, each head by itself.
  //   x, y [T, N, D] f32; y may alias x
  virtual void L2Norm(Tensor x, float scale, Tensor y) = 0;

  // y = a + b.   [T, H] act; y may alias a or b
  virtual void Add(Tensor a, Tensor b, Tensor y) = 0;

  // y = x, rounded to act.   x [T, H] f32; y [T, H] act
  virtual void Round(Tensor x, Tensor y) = 0;

  // y = x * sigmoid(gate).   x [T, n] f32; gate, y [T, n] act
  virtual void MulSigmoid(Tensor x, Tensor gate, Tensor y) = 0;

  // --- Attention -----------------------------------------------------------

  // Rotates the first 2 F elements of each head in place, halves against each
  // other: (x[i], x[i+F]) by the angle f32(positions[t]) * inv_freq[i], which
  // is rounded to f32 once, as the reference implementation does.
  //   positions [T] i32; inv_freq [F] f32; x [T, N, D] act
  // Source: Su et al. 2021, arXiv:2104.09864; model_spec.md 2.4.
  virtual void Rope(Tensor positions, Tensor inv_freq, Tensor x) = 0;

  // Writes each token's keys and values to its place in the cache.
  //   k, v [T, Nk, D] act; places [T] i32: block * 64 + position % 64;
  //   keys, values [blocks, Nk, 64, D] act
  virtual void StoreKv(Tensor k, Tensor v, Tensor places, Tensor keys,
                       Tensor values) = 0;

  // Causal attention of each row over its sequence's past and itself, whose
  // keys are in the cache already. Query head h reads key head h * Nk / Nq.
  // Segments of 256 positions, blocks of 64 inside, online softmax in f32, the
  // probabilities rounded to act for the product with the values only; segments
  // merge left to right (design.md section 3, rule 3).
  //   q [T, Nq, D] act; keys, values as in StoreKv; y [T, Nq, D] f32
  // Source: Dao et al. 2022, arXiv:2205.14135; Kwon et al. 2023,
  // arXiv:2309.06180 (paging).
  virtual void PagedAttention(Tensor q, Tensor keys, Tensor values,
                              const Sequences& sequences, float scale,
                              Tensor y) = 0;

  // --- Gated delta net -----------------------------------------------------

  // Causal depthwise convolution along each sequence, then SiLU.
  //   y[t,c] = silu(sum_j w[c,j] * x[t - (W-1) + j, c]),  j ascending
  // Rows before a sequence's first one come from its state, whose last W - 1
  // raw rows (oldest first) are replaced; where past is 0 the state counts as
  // zeros.
  //   x [T, C] act; w [C, W] f32; state [slots, W - 1, C] act; y [T, C] f32
  virtual void ConvSilu(Tensor x, Tensor w, const Sequences& sequences,
                        Tensor state, Tensor y) = 0;

  // g = -exp(a_log) * softplus(a + dt_bias);  beta = sigmoid(b)
  // softplus(x) = x above 20, else log1p(exp(x)).
  //   a, b [T, Nv] act; a_log, dt_bias [Nv] f32; g, beta [T, Nv] f32
  virtual void GdnGates(Tensor a, Tensor b, Tensor a_log, Tensor dt_bias,
                        Tensor g, Tensor beta) = 0;

  // Gated delta rule: each value head carries a matrix S through its sequence.
  //
  //   S    <- exp(g[t]) * S
  //   S    <- S + beta[t] * (v[t] - S k[t]) k[t]^T
  //   y[t] <- S q[t]
  //
  // in the form of model_spec.md 2.5 that reads S once a token.
  //   q, k   [T, Nk, Dk]  f32, unit length; q already scaled by Dk^-1/2
  //   v, y   [T, Nv, Dv]  f32; head n reads q and k of head n * Nk / Nv
  //   g      [T, Nv]      f32, <= 0: log of the decay
  //   beta   [T, Nv]      f32, in (0, 1): writing strength
  //   state  [slots, Nv, Dv, Dk]  f32, read and written in place; where past is
  //          0 the state counts as zeros
  // Rows of one sequence are taken in order, token by token; the result does
  // not depend on how a sequence is cut into steps. Source: Yang, Kautz,
  // Hatamizadeh 2024, arXiv:2412.06464.
  virtual void GatedDelta(Tensor q, Tensor k, Tensor v, Tensor g, Tensor beta,
                          const Sequences& sequences, Tensor state,
                          Tensor y) = 0;
};

}  // namespace phalanx

#endif  // PHALANX_KERNELS_OPS_H_
