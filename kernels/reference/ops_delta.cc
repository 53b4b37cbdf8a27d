// Gated delta net: convolution, gates, recurrence.

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/check.h"
#include "kernels/op_checks.h"
#include "kernels/reference/functions.h"
#include "kernels/reference/reference_ops.h"

namespace phalanx {
namespace {

// One sequence's rows of a step and its place among the states.
struct Run {
  int64_t first = 0;
  int64_t end = 0;
  bool fresh = false;
  int64_t slot = 0;
};

Run RunOf(const Sequences& sequences, int64_t s, int64_t T, int64_t slots) {
  Run run;
  run.first = *sequences.first_row.row<int32_t>(s);
  run.end = *sequences.first_row.row<int32_t>(s + 1);
  run.fresh = *sequences.past.row<int32_t>(s) == 0;
  run.slot = *sequences.state_slot.row<int32_t>(s);
  CHECK(0 <= run.first && run.first <= run.end && run.end <= T);
  CHECK(run.slot >= 0 && run.slot < slots);
  return run;
}

// One value head through one token; S [Dv, Dk].
void DeltaStep(const float* q, const float* k, const float* v, double g,
               double beta, int64_t Dk, int64_t Dv, float* S, float* y) {
  const double decay = std::exp(g);
  double kq = 0;
  for (int64_t i = 0; i < Dk; ++i) kq += double{k[i]} * q[i];
  for (int64_t j = 0; j < Dv; ++j) {
    float* row = S + j * Dk;
    double Sk = 0, Sq = 0;
    for (int64_t i = 0; i < Dk; ++i) {
      Sk += double{row[i]} * k[i];
      Sq += double{row[i]} * q[i];
    }
    const double delta = beta * (v[j] - decay * Sk);
    for (int64_t i = 0; i < Dk; ++i)
      row[i] = static_cast<float>(decay * row[i] + delta * k[i]);
    y[j] = static_cast<float>(decay * Sq + delta * kq);
  }
}

}  // namespace

void ReferenceOps::ConvSilu(Tensor x, Tensor w, const Sequences& sequences,
                            Tensor state, Tensor y) {
  CheckConvSilu(x, w, sequences, state, y, DType::kF32);
  const int64_t C = x.dims[1], W = w.dims[1];
  for (int64_t s = 0; s < sequences.count(); ++s) {
    const Run run = RunOf(sequences, s, x.dims[0], state.dims[0]);
    float* window = state.row<float>(run.slot);
    if (run.first == run.end) continue;
    if (run.fresh) std::fill_n(window, (W - 1) * C, 0.0f);
    for (int64_t t = run.first; t < run.end; ++t) {
      const float* now = x.row<float>(t);
      for (int64_t c = 0; c < C; ++c) {
        const float* taps = w.row<float>(c);
        double sum = 0;
        for (int64_t j = 0; j < W - 1; ++j)
          sum += double{taps[j]} * window[j * C + c];
        sum += double{taps[W - 1]} * now[c];
        y.row<float>(t)[c] = static_cast<float>(Silu(sum));
      }
      std::copy(window + C, window + (W - 1) * C, window);
      std::copy(now, now + C, window + (W - 2) * C);
    }
  }
}

void ReferenceOps::GdnGates(Tensor a, Tensor b, Tensor a_log, Tensor dt_bias,
                            Tensor g, Tensor beta) {
  CheckGdnGates(a, b, a_log, dt_bias, g, beta, DType::kF32);
  for (int64_t t = 0; t < a.dims[0]; ++t) {
    for (int64_t n = 0; n < a.dims[1]; ++n) {
      const double dt = double{a.row<float>(t)[n]} + *dt_bias.row<float>(n);
      g.row<float>(t)[n] = static_cast<float>(
          -std::exp(double{*a_log.row<float>(n)}) * Softplus(dt));
      beta.row<float>(t)[n] = static_cast<float>(Sigmoid(b.row<float>(t)[n]));
    }
  }
}

void ReferenceOps::GatedDelta(Tensor q, Tensor k, Tensor v, Tensor g,
                              Tensor beta, const Sequences& sequences,
                              Tensor state, Tensor y) {
  CheckGatedDelta(q, k, v, g, beta, sequences, state, y);
  const int64_t Nk = q.dims[1], Dk = q.dims[2];
  const int64_t Nv = v.dims[1], Dv = v.dims[2];
  for (int64_t s = 0; s < sequences.count(); ++s) {
    const Run run = RunOf(sequences, s, q.dims[0], state.dims[0]);
    float* S = state.row<float>(run.slot);
    if (run.first == run.end) continue;
    if (run.fresh) std::fill_n(S, Nv * Dv * Dk, 0.0f);
    for (int64_t t = run.first; t < run.end; ++t) {
      for (int64_t n = 0; n < Nv; ++n) {
        const int64_t key_head = n * Nk / Nv;
        DeltaStep(q.row<float>(t) + key_head * Dk,
                  k.row<float>(t) + key_head * Dk, v.row<float>(t) + n * Dv,
                  g.row<float>(t)[n], beta.row<float>(t)[n], Dk, Dv,
                  S + n * Dv * Dk, y.row<float>(t) + n * Dv);
      }
    }
  }
}

}  // namespace phalanx
