#include "worker/bench/metered_ops.h"

#include <algorithm>

namespace phalanx {

void MeteredOps::Restart(bool timing) {
  timing_ = timing;
  work_ = {};
  seconds_ = {};
  last_end_ = clock_.now_seconds();
}

template <typename Op>
void MeteredOps::Run(Part part, Op op) {
  if (!timing_) return op();
  const double begin = clock_.now_seconds();
  op();
  last_end_ = clock_.now_seconds();
  AddSeconds(part, last_end_ - begin);
}

// So many matrices of `w`, each by so many rows.
void MeteredOps::CountProduct(Part part, int64_t rows, const PackedWeight& w,
                              int64_t matrices) {
  if (rows == 0) return;
  const auto n = static_cast<double>(matrices);
  work_.products.Add(
      {.part = part,
       .peak = PeakFor(w.format),
       .bytes = n * static_cast<double>(w.share_bytes()) /
                static_cast<double>(w.count),
       .flops = n * 2.0 * static_cast<double>(rows * w.rows * w.cols)});
}

void MeteredOps::CountExperts(const PackedWeight& w) {
  for (const Crowd& crowd : crowds_)
    CountProduct(Part::kExperts, crowd.rows, w, crowd.experts);
}

void MeteredOps::CountRouting(std::vector<int32_t>& offsets) {
  // In place: the rows of each expert that got any, in order.
  int64_t touched = 0;
  for (size_t e = 0; e + 1 < offsets.size(); ++e)
    if (const int32_t rows = offsets[e + 1] - offsets[e]; rows > 0)
      offsets[touched++] = rows;
  std::sort(offsets.begin(), offsets.begin() + touched);
  crowds_.clear();
  for (int64_t i = 0; i < touched; ++i) {
    if (crowds_.empty() || crowds_.back().rows != offsets[i])
      crowds_.push_back({.rows = offsets[i]});
    ++crowds_.back().experts;
  }
  work_.experts += static_cast<double>(touched);
  work_.expert_layers += 1;
}

std::vector<int32_t>& MeteredOps::Host(Tensor values) {
  host_.resize(values.elements());
  backend_.Download(values, host_.data());
  return host_;
}

void MeteredOps::Embed(Tensor ids, Tensor table, int64_t first_id, Tensor y) {
  if (y.elements() > 0)
    work_.products.Add({.part = Part::kRest,
                        .peak = Peak::kNone,
                        .bytes = static_cast<double>(
                            y.elements() * ElementBytes(table.dtype))});
  Run(Part::kRest, [&] { ops_.Embed(ids, table, first_id, y); });
}

void MeteredOps::SelectOwner(Tensor ids, int64_t rows_per_rank, Tensor gathered,
                             Tensor y) {
  Run(Part::kRest, [&] { ops_.SelectOwner(ids, rows_per_rank, gathered, y); });
}

void MeteredOps::GatherRows(Tensor x, Tensor rows, Tensor y) {
  Run(Part::kHead, [&] { ops_.GatherRows(x, rows, y); });
}

void MeteredOps::Copy(Tensor x, Tensor y) {
  Run(Part::kRest, [&] { ops_.Copy(x, y); });
}

void MeteredOps::MatMul(Tensor x, const PackedWeight& w, Tensor y) {
  const Part part = w.storage.data() == lm_head_ ? Part::kHead : Part::kDense;
  CountProduct(part, x.dims[0], w);
  Run(part, [&] { ops_.MatMul(x, w, y); });
}

void MeteredOps::GateUp(Tensor x, const PackedWeight& w, Tensor y) {
  CountProduct(Part::kDense, x.dims[0], w);
  Run(Part::kDense, [&] { ops_.GateUp(x, w, y); });
}

void MeteredOps::MatMulSliced(Tensor x, const PackedWeight& w, int slices,
                              Tensor y) {
  CountProduct(Part::kDense, x.dims[0], w);
  Run(Part::kDense, [&] { ops_.MatMulSliced(x, w, slices, y); });
}

void MeteredOps::Route(Tensor logits, bool renormalise, Routing routing) {
  Run(Part::kRest, [&] { ops_.Route(logits, renormalise, routing); });
  CountRouting(Host(routing.offsets));
}

void MeteredOps::ExpertsGateUp(Tensor x, const PackedWeight& w, Routing routing,
                               Tensor hidden) {
  // The last op was before the experts were waited for.
  if (timing_) AddSeconds(Part::kFetch, clock_.now_seconds() - last_end_);
  CountExperts(w);
  Run(Part::kExperts, [&] { ops_.ExpertsGateUp(x, w, routing, hidden); });
}

void MeteredOps::ExpertsDown(Tensor hidden, const PackedWeight& w,
                             Routing routing, Tensor shared_hidden,
                             const PackedWeight& shared_w, Tensor shared_gate,
                             int slices, Tensor y) {
  CountExperts(w);
  CountProduct(Part::kExperts, shared_hidden.dims[0], shared_w);
  Run(Part::kExperts, [&] {
    ops_.ExpertsDown(hidden, w, routing, shared_hidden, shared_w, shared_gate,
                     slices, y);
  });
}

void MeteredOps::RmsNorm(Tensor x, Tensor w, float eps, Tensor y) {
  const Part part = x.rank == 3       ? Part::kAttention
                    : w.data == norm_ ? Part::kHead
                                      : Part::kRest;
  Run(part, [&] { ops_.RmsNorm(x, w, eps, y); });
}

void MeteredOps::GatedRmsNorm(Tensor x, Tensor z, Tensor w, float eps,
                              Tensor y) {
  Run(Part::kGdn, [&] { ops_.GatedRmsNorm(x, z, w, eps, y); });
}

void MeteredOps::L2Norm(Tensor x, float scale, Tensor y) {
  Run(Part::kGdn, [&] { ops_.L2Norm(x, scale, y); });
}

void MeteredOps::Add(Tensor a, Tensor b, Tensor y) {
  Run(Part::kRest, [&] { ops_.Add(a, b, y); });
}

void MeteredOps::Round(Tensor x, Tensor y) {
  Run(Part::kRest, [&] { ops_.Round(x, y); });
}

void MeteredOps::MulSigmoid(Tensor x, Tensor gate, Tensor y) {
  Run(Part::kAttention, [&] { ops_.MulSigmoid(x, gate, y); });
}

void MeteredOps::Rope(Tensor positions, Tensor inv_freq, Tensor x) {
  Run(Part::kAttention, [&] { ops_.Rope(positions, inv_freq, x); });
}

void MeteredOps::StoreKv(Tensor k, Tensor v, Tensor places, Tensor keys,
                         Tensor values) {
  Run(Part::kAttention, [&] { ops_.StoreKv(k, v, places, keys, values); });
}

void MeteredOps::PagedAttention(Tensor q, Tensor keys, Tensor values,
                                const Sequences& sequences, float scale,
                                Tensor y) {
  int64_t positions = q.dims[0];
  for (const int32_t past : Host(sequences.past)) positions += past;
  const int64_t head_elements = keys.dims[1] * keys.dims[3];
  work_.cache_bytes += static_cast<double>(2 * positions * head_elements *
                                           ElementBytes(keys.dtype));
  Run(Part::kAttention,
      [&] { ops_.PagedAttention(q, keys, values, sequences, scale, y); });
}

void MeteredOps::ConvSilu(Tensor x, Tensor w, const Sequences& sequences,
                          Tensor state, Tensor y) {
  Run(Part::kGdn, [&] { ops_.ConvSilu(x, w, sequences, state, y); });
}

void MeteredOps::GdnGates(Tensor a, Tensor b, Tensor a_log, Tensor dt_bias,
                          Tensor g, Tensor beta) {
  Run(Part::kGdn, [&] { ops_.GdnGates(a, b, a_log, dt_bias, g, beta); });
}

void MeteredOps::GatedDelta(Tensor q, Tensor k, Tensor v, Tensor g, Tensor beta,
                            const Sequences& sequences, Tensor state,
                            Tensor y) {
  work_.cache_bytes += static_cast<double>(
      sequences.count() * state.row_elements() * ElementBytes(state.dtype));
  Run(Part::kGdn,
      [&] { ops_.GatedDelta(q, k, v, g, beta, sequences, state, y); });
}

}  // namespace phalanx
