#include "kernels/op_checks.h"

#include <initializer_list>

#include "common/check.h"

namespace phalanx {
namespace {

constexpr int64_t kAny = -1;

// A view of these dimensions whose rows may be further apart than they are
// wide. A negative dimension stands for any.
bool Is(const Tensor& t, DType dtype, std::initializer_list<int64_t> dims) {
  if (t.dtype != dtype || t.rank != static_cast<int>(dims.size())) return false;
  int i = 0;
  for (int64_t dim : dims) {
    if (t.dims[i] < 0 || (dim >= 0 && t.dims[i] != dim)) return false;
    ++i;
  }
  if (t.dims[0] > 1 && t.row_stride < t.row_elements()) return false;
  return t.data != nullptr || t.elements() == 0;
}

// The same without gaps: lists of numbers and small parameters.
bool IsPacked(const Tensor& t, DType dtype,
              std::initializer_list<int64_t> dims) {
  return Is(t, dtype, dims) && (t.dims[0] <= 1 || t.contiguous());
}

bool IsActOrF32(const Tensor& t, DType act,
                std::initializer_list<int64_t> dims) {
  return Is(t, act, dims) || Is(t, DType::kF32, dims);
}

bool IsWeight(const PackedWeight& w, WeightLayout layout, int64_t count,
              int64_t cols) {
  return w.layout == layout && w.count == count && w.cols == cols &&
         w.storage.data() != nullptr;
}

bool CutsEvenly(int64_t cols, int slices) {
  return (slices == 1 || slices == 2 || slices == 4 || slices == 8) &&
         cols % (2 * slices) == 0;
}

// A routing of T tokens over the experts that `matrices` hold, or E of them.
int64_t ExpertsOf(const Routing& routing, int64_t matrices) {
  return routing.places.data == nullptr ? matrices : routing.places.dims[0];
}

// Groups of a quantised weight lie as the slices it was made for want them.
bool MaySlice(const PackedWeight& w, int slices) {
  return w.format == WeightFormat::kBf16 || w.slices == slices;
}

void CheckRouting(const Routing& routing, int64_t T, int64_t E) {
  CHECK(IsPacked(routing.expert, DType::kI32, {T, kAny}));
  const int64_t K = routing.expert.dims[1];
  CHECK(K >= 1 && K <= E);
  CHECK(IsPacked(routing.weight, DType::kF32, {T, K}));
  CHECK(IsPacked(routing.offsets, DType::kI32, {E + 1}));
  CHECK(IsPacked(routing.order, DType::kI32, {T * K}));
  if (routing.places.data != nullptr)
    CHECK(IsPacked(routing.places, DType::kI32, {E}));
}

void CheckRuns(const Sequences& sequences) {
  CHECK(IsPacked(sequences.past, DType::kI32, {kAny}));
  CHECK(IsPacked(sequences.first_row, DType::kI32, {sequences.count() + 1}));
}

}  // namespace

void CheckEmbed(Tensor ids, Tensor table, int64_t first_id, Tensor y,
                DType act) {
  CHECK(IsPacked(ids, DType::kI32, {kAny}));
  CHECK(Is(table, DType::kBf16, {kAny, kAny}));
  CHECK(first_id >= 0);
  CHECK(Is(y, act, {ids.dims[0], table.dims[1]}));
}

void CheckSelectOwner(Tensor ids, int64_t rows_per_rank, Tensor gathered,
                      Tensor y, DType act) {
  CHECK(IsPacked(ids, DType::kI32, {kAny}));
  CHECK(rows_per_rank > 0);
  CHECK(Is(gathered, act, {kAny, ids.dims[0], kAny}));
  CHECK(Is(y, act, {ids.dims[0], gathered.dims[2]}));
}

void CheckGatherRows(Tensor x, Tensor rows, Tensor y, DType act) {
  CHECK(Is(x, act, {kAny, kAny}));
  CHECK(IsPacked(rows, DType::kI32, {kAny}));
  CHECK(Is(y, act, {rows.dims[0], x.dims[1]}));
}

void CheckCopy(Tensor x, Tensor y) {
  CHECK(Is(x, x.dtype, {kAny, kAny}));
  CHECK(Is(y, x.dtype, {x.dims[0], x.dims[1]}));
}

void CheckMatMul(Tensor x, const PackedWeight& w, Tensor y, DType act) {
  CHECK(Is(x, act, {kAny, kAny}));
  CHECK(IsWeight(w, WeightLayout::kPlain, 1, x.dims[1]));
  CHECK(MaySlice(w, 1));
  CHECK(IsActOrF32(y, act, {x.dims[0], w.rows}));
}

void CheckGateUp(Tensor x, const PackedWeight& w, Tensor y, DType act) {
  CHECK(Is(x, act, {kAny, kAny}));
  CHECK(IsWeight(w, WeightLayout::kGateUp, 1, x.dims[1]));
  CHECK(MaySlice(w, 1));
  CHECK(Is(y, act, {x.dims[0], w.rows / 2}));
}

void CheckMatMulSliced(Tensor x, const PackedWeight& w, int slices, Tensor y,
                       DType act) {
  CHECK(Is(x, act, {kAny, kAny}));
  CHECK(IsWeight(w, WeightLayout::kPlain, 1, x.dims[1]));
  CHECK(CutsEvenly(w.cols, slices) && MaySlice(w, slices));
  CHECK(Is(y, DType::kF32, {x.dims[0], w.rows}));
}

void CheckRoute(Tensor logits, const Routing& routing) {
  CHECK(Is(logits, DType::kF32, {kAny, kAny}));
  CheckRouting(routing, logits.dims[0], logits.dims[1]);
}

void CheckExpertsGateUp(Tensor x, const PackedWeight& w, const Routing& routing,
                        Tensor hidden, DType act) {
  CHECK(Is(x, act, {kAny, kAny}));
  CheckRouting(routing, x.dims[0], ExpertsOf(routing, w.count));
  CHECK(IsWeight(w, WeightLayout::kGateUp, w.count, x.dims[1]));
  CHECK(MaySlice(w, 1));
  CHECK(Is(hidden, act, {x.dims[0] * routing.expert.dims[1], w.rows / 2}));
}

void CheckExpertsDown(Tensor hidden, const PackedWeight& w,
                      const Routing& routing, Tensor shared_hidden,
                      const PackedWeight& shared_w, Tensor shared_gate,
                      int slices, Tensor y, DType act) {
  CHECK(Is(shared_hidden, act, {kAny, kAny}));
  const int64_t T = shared_hidden.dims[0];
  CheckRouting(routing, T, ExpertsOf(routing, w.count));
  CHECK(Is(hidden, act, {T * routing.expert.dims[1], kAny}));
  CHECK(IsWeight(w, WeightLayout::kPlain, w.count, hidden.dims[1]));
  CHECK(IsWeight(shared_w, WeightLayout::kPlain, 1, shared_hidden.dims[1]));
  CHECK(w.rows == shared_w.rows);
  CHECK(w.format == shared_w.format);
  CHECK(CutsEvenly(w.cols, slices) && MaySlice(w, slices));
  CHECK(CutsEvenly(shared_w.cols, slices) && MaySlice(shared_w, slices));
  CHECK(Is(shared_gate, act, {T, 1}));
  CHECK(Is(y, DType::kF32, {T, w.rows}));
}

void CheckRmsNorm(Tensor x, Tensor w, float eps, Tensor y, DType act) {
  CHECK(x.rank == 2 ? Is(x, act, {kAny, kAny})
                    : Is(x, act, {kAny, kAny, kAny}));
  CHECK(IsPacked(w, DType::kF32, {x.dims[x.rank - 1]}));
  CHECK(eps >= 0);
  CHECK(x.rank == 2 ? Is(y, act, {x.dims[0], x.dims[1]})
                    : Is(y, act, {x.dims[0], x.dims[1], x.dims[2]}));
}

void CheckGatedRmsNorm(Tensor x, Tensor z, Tensor w, float eps, Tensor y,
                       DType act) {
  CHECK(Is(x, DType::kF32, {kAny, kAny, kAny}));
  CHECK(Is(z, act, {x.dims[0], x.dims[1], x.dims[2]}));
  CHECK(IsPacked(w, DType::kF32, {x.dims[2]}));
  CHECK(eps >= 0);
  CHECK(Is(y, act, {x.dims[0], x.dims[1], x.dims[2]}));
}

void CheckL2Norm(Tensor x, Tensor y) {
  CHECK(Is(x, DType::kF32, {kAny, kAny, kAny}));
  CHECK(Is(y, DType::kF32, {x.dims[0], x.dims[1], x.dims[2]}));
}

void CheckAdd(Tensor a, Tensor b, Tensor y, DType act) {
  CHECK(Is(a, act, {kAny, kAny}));
  CHECK(Is(b, act, {a.dims[0], a.dims[1]}));
  CHECK(Is(y, act, {a.dims[0], a.dims[1]}));
}

void CheckRound(Tensor x, Tensor y, DType act) {
  CHECK(Is(x, DType::kF32, {kAny, kAny}));
  CHECK(Is(y, act, {x.dims[0], x.dims[1]}));
}

void CheckMulSigmoid(Tensor x, Tensor gate, Tensor y, DType act) {
  CHECK(Is(x, DType::kF32, {kAny, kAny}));
  CHECK(Is(gate, act, {x.dims[0], x.dims[1]}));
  CHECK(Is(y, act, {x.dims[0], x.dims[1]}));
}

void CheckRope(Tensor positions, Tensor inv_freq, Tensor x, DType act) {
  CHECK(Is(x, act, {kAny, kAny, kAny}));
  CHECK(IsPacked(positions, DType::kI32, {x.dims[0]}));
  CHECK(IsPacked(inv_freq, DType::kF32, {kAny}));
  CHECK(2 * inv_freq.dims[0] <= x.dims[2]);
}

void CheckStoreKv(Tensor k, Tensor v, Tensor places, Tensor keys, Tensor values,
                  DType act) {
  CHECK(Is(k, act, {kAny, kAny, kAny}));
  CHECK(Is(v, act, {k.dims[0], k.dims[1], k.dims[2]}));
  CHECK(IsPacked(places, DType::kI32, {k.dims[0]}));
  CHECK(Is(keys, act, {kAny, k.dims[1], kKvBlockTokens, k.dims[2]}));
  CHECK(Is(values, act, {keys.dims[0], k.dims[1], kKvBlockTokens, k.dims[2]}));
}

void CheckPagedAttention(Tensor q, Tensor keys, Tensor values,
                         const Sequences& sequences, Tensor y, DType act) {
  CHECK(Is(q, act, {kAny, kAny, kAny}));
  const int64_t D = q.dims[2];
  CHECK(Is(keys, act, {kAny, kAny, kKvBlockTokens, D}));
  const int64_t Nk = keys.dims[1];
  CHECK(Nk >= 1 && q.dims[1] % Nk == 0);
  CHECK(Is(values, act, {keys.dims[0], Nk, kKvBlockTokens, D}));
  CheckRuns(sequences);
  CHECK(Is(sequences.block_table, DType::kI32, {sequences.count(), kAny}));
  CHECK(Is(y, DType::kF32, {q.dims[0], q.dims[1], D}));
}

void CheckConvSilu(Tensor x, Tensor w, const Sequences& sequences, Tensor state,
                   Tensor y, DType act) {
  CHECK(Is(x, act, {kAny, kAny}));
  const int64_t C = x.dims[1];
  CHECK(IsPacked(w, DType::kF32, {C, kAny}));
  const int64_t W = w.dims[1];
  CHECK(W >= 2);
  CheckRuns(sequences);
  CHECK(IsPacked(sequences.state_slot, DType::kI32, {sequences.count()}));
  CHECK(Is(state, act, {kAny, W - 1, C}));
  CHECK(Is(y, DType::kF32, {x.dims[0], C}));
}

void CheckGdnGates(Tensor a, Tensor b, Tensor a_log, Tensor dt_bias, Tensor g,
                   Tensor beta, DType act) {
  CHECK(Is(a, act, {kAny, kAny}));
  CHECK(Is(b, act, {a.dims[0], a.dims[1]}));
  CHECK(IsPacked(a_log, DType::kF32, {a.dims[1]}));
  CHECK(IsPacked(dt_bias, DType::kF32, {a.dims[1]}));
  CHECK(Is(g, DType::kF32, {a.dims[0], a.dims[1]}));
  CHECK(Is(beta, DType::kF32, {a.dims[0], a.dims[1]}));
}

void CheckGatedDelta(Tensor q, Tensor k, Tensor v, Tensor g, Tensor beta,
                     const Sequences& sequences, Tensor state, Tensor y) {
  CHECK(Is(q, DType::kF32, {kAny, kAny, kAny}));
  const int64_t T = q.dims[0], Nk = q.dims[1], Dk = q.dims[2];
  CHECK(Is(k, DType::kF32, {T, Nk, Dk}));
  CHECK(Is(v, DType::kF32, {T, kAny, kAny}));
  const int64_t Nv = v.dims[1], Dv = v.dims[2];
  CHECK(Nk >= 1 && Nv % Nk == 0);
  CHECK(Is(g, DType::kF32, {T, Nv}));
  CHECK(Is(beta, DType::kF32, {T, Nv}));
  CheckRuns(sequences);
  CHECK(IsPacked(sequences.state_slot, DType::kI32, {sequences.count()}));
  CHECK(Is(state, DType::kF32, {kAny, Nv, Dv, Dk}));
  CHECK(Is(y, DType::kF32, {T, Nv, Dv}));
}

void CheckWeightShape(const WeightShape& shape) {
  CHECK(shape.count >= 1 && shape.rows >= 1 && shape.cols >= 2);
  CHECK(shape.cols % 2 == 0);
  CHECK(shape.layout == WeightLayout::kPlain || shape.rows % 2 == 0);
  CHECK(shape.slices >= 1 && shape.cols % shape.slices == 0);
}

void CheckPackWeight(const uint16_t* host, int64_t index,
                     const PackedWeight& weight) {
  CHECK(host != nullptr);
  CHECK(index >= 0 && index < weight.count);
  CHECK(weight.storage.data() != nullptr);
}

void CheckPackCodes(const uint8_t* codes, const uint16_t* scales, int64_t index,
                    const PackedWeight& weight) {
  CHECK(codes != nullptr && scales != nullptr);
  CHECK(weight.format != WeightFormat::kBf16);
  CHECK(index >= 0 && index < weight.count);
  CHECK(weight.storage.data() != nullptr);
}

}  // namespace phalanx
