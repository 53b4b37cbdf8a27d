// The gated delta rule, token by token (design.md section 3, rule 4). Value
// columns are independent of each other, so sixteen of them at a time walk
// through all tokens of the step with their rows of S in L1.

#include <cstring>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/vec.h"

namespace phalanx::PHALANX_ISA {
namespace {

// Rough costs for ForRanges: of an element of S for one token, of a gate.
constexpr double kNsPerStateElement = 0.1;
constexpr double kNsPerGate = 4.0;

// How far ahead of the state's rows that are read the following ones are asked
// for: states lie head after head, and a decode step walks through all of them.
constexpr int64_t kAheadFloats = 4096;

// One value head of one sequence, sixteen of its columns.
struct Columns {
  int64_t key_size;      // Dk
  int64_t parts;         // Dk in vectors, rounded up.
  int64_t count;         // Columns that exist; sixteen or, at the end, fewer.
  int64_t query_offset;  // Of the key head in a row of q and k.
  int64_t value_offset;  // Of the first column in a row of v and y.
  int64_t head;
};

struct Inputs {
  Tensor q, k, v, g, beta, y;  // The rows of one sequence.
};

// Sixteen rows of s times k and times q, `parts` vectors each. kParts is their
// number where it is known, and then k and q stay in registers.
template <int kParts, int64_t kAhead>
void ReadRows(const float* s, const float* k, const float* q, int64_t parts,
              F32x16* with_k, F32x16* with_q) {
  constexpr int kHeld = kParts > 0 ? kParts : 1;
  F32x16 held_k[kHeld];
  F32x16 held_q[kHeld];
#pragma GCC unroll 8
  for (int p = 0; p < kParts; ++p) {
    held_k[p] = Load(k + p * kLanes);
    held_q[p] = Load(q + p * kLanes);
  }
  for (int64_t j = 0; j < kLanes; ++j) {
    const float* row = s + j * parts * kLanes;
    if (kAhead > 0) {
#pragma GCC unroll 8
      for (int p = 0; p < kParts; ++p)
        __builtin_prefetch(row + kAhead + p * kLanes, 1, 3);
    }
    F32x16 sum_k = Zero();
    F32x16 sum_q = Zero();
#pragma GCC unroll 8
    for (int p = 0; p < kParts; ++p) {
      const F32x16 part = Load(row + p * kLanes);
      sum_k = Fma(part, held_k[p], sum_k);
      sum_q = Fma(part, held_q[p], sum_q);
    }
    for (int64_t p = kParts; p < parts; ++p) {
      const F32x16 part = Load(row + p * kLanes);
      sum_k = Fma(part, Load(k + p * kLanes), sum_k);
      sum_q = Fma(part, Load(q + p * kLanes), sum_q);
    }
    with_k[j] = sum_k;
    with_q[j] = sum_q;
  }
}

// s <- e s + delta k^T, kParts as above.
template <int kParts>
void WriteRows(const float* k, const float* delta, F32x16 e, int64_t parts,
               float* s) {
  constexpr int kHeld = kParts > 0 ? kParts : 1;
  F32x16 held_k[kHeld];
#pragma GCC unroll 8
  for (int p = 0; p < kParts; ++p) held_k[p] = Load(k + p * kLanes);
  for (int64_t j = 0; j < kLanes; ++j) {
    const F32x16 d = Broadcast(delta[j]);
    float* row = s + j * parts * kLanes;
#pragma GCC unroll 8
    for (int p = 0; p < kParts; ++p)
      Store(row + p * kLanes, Fma(d, held_k[p], e * Load(row + p * kLanes)));
    for (int64_t p = kParts; p < parts; ++p)
      Store(row + p * kLanes,
            Fma(d, Load(k + p * kLanes), e * Load(row + p * kLanes)));
  }
}

// One token. s holds sixteen rows of `parts` vectors. With e = exp(g):
//   m = e (S k), delta = beta (v - m), y = e (S q) + delta (k q),
//   S <- e S + delta k^T
// which reads S before it is written, once for both products.
template <int kParts, int64_t kAhead>
void Step(const Columns& columns, const float* q, const float* k, F32x16 v,
          float g, float beta, float* s, float* y) {
  const int64_t parts = kParts > 0 ? kParts : columns.parts;
  F32x16 with_k[kLanes];
  F32x16 with_q[kLanes];
  ReadRows<kParts, kAhead>(s, k, q, parts, with_k, with_q);
  F32x16 k_times_q = Zero();
  for (int64_t p = 0; p < parts; ++p)
    k_times_q = Fma(Load(k + p * kLanes), Load(q + p * kLanes), k_times_q);

  const F32x16 e = Exp(Broadcast(g));
  const F32x16 m = e * HorizontalSums(with_k);
  const F32x16 delta = Broadcast(beta) * (v - m);
  const F32x16 read = e * HorizontalSums(with_q);
  StorePart(y, Fma(delta, Broadcast(HorizontalSum(k_times_q)), read),
            columns.count);

  alignas(64) float deltas[kLanes];
  Store(deltas, delta);
  WriteRows<kParts>(k, deltas, e, parts, s);
}

// A row of k or q, in place where it is whole vectors, else padded by zeros.
const float* Padded(const float* x, const Columns& columns, float* room) {
  if (columns.key_size % kLanes == 0) return x;
  for (int64_t i = 0; i < columns.parts * kLanes; i += kLanes)
    Store(room + i, LoadPart(x + i, columns.key_size - i));
  return room;
}

template <int kParts>
void WalkTokens(const Columns& columns, const Inputs& in, float* s,
                float* room) {
  float* k_room = room;
  float* q_room = room + columns.parts * kLanes;
  const int64_t rows = in.q.dims[0];
  for (int64_t t = 0; t < rows; ++t) {
    const float* k =
        Padded(in.k.row<float>(t) + columns.query_offset, columns, k_room);
    const float* q =
        Padded(in.q.row<float>(t) + columns.query_offset, columns, q_room);
    const F32x16 v =
        LoadPart(in.v.row<float>(t) + columns.value_offset, columns.count);
    const float g = in.g.row<float>(t)[columns.head];
    const float beta = in.beta.row<float>(t)[columns.head];
    float* y = in.y.row<float>(t) + columns.value_offset;
    if (t + 1 < rows)
      Step<kParts, 0>(columns, q, k, v, g, beta, s, y);
    else
      Step<kParts, kAheadFloats>(columns, q, k, v, g, beta, s, y);
  }
}

void WalkTokens(const Columns& columns, const Inputs& in, float* s,
                float* room) {
  switch (columns.parts) {
    case 1:
      return WalkTokens<1>(columns, in, s, room);
    case 8:
      return WalkTokens<8>(columns, in, s, room);
    default:
      return WalkTokens<0>(columns, in, s, room);
  }
}

// state: the columns' rows of S, [count, Dk]. They are worked on in place where
// they are whole vectors, else in a copy padded by zeros.
void AdvanceColumns(const Columns& columns, const Inputs& in, bool fresh,
                    float* state) {
  static thread_local Scratch scratch;
  const int64_t stride = columns.parts * kLanes;
  const size_t bytes = columns.key_size * sizeof(float);
  if (fresh) std::memset(state, 0, columns.count * bytes);
  float* room = scratch.Get((kLanes + 2) * stride);
  float* s = room + 2 * stride;
  if (columns.count == kLanes && columns.key_size == stride)
    return WalkTokens(columns, in, state, room);
  std::memset(s, 0, kLanes * stride * sizeof(float));
  for (int64_t j = 0; j < columns.count; ++j)
    std::memcpy(s + j * stride, state + j * columns.key_size, bytes);
  WalkTokens(columns, in, s, room);
  for (int64_t j = 0; j < columns.count; ++j)
    std::memcpy(state + j * columns.key_size, s + j * stride, bytes);
}

}  // namespace

void GdnGates(ThreadPool& pool, Tensor a, Tensor b, Tensor a_log,
              Tensor dt_bias, Tensor g, Tensor beta) {
  const int64_t heads = a.dims[1];
  const float* rate = a_log.row<float>(0);
  const float* bias = dt_bias.row<float>(0);
  ForRanges(
      pool, a.dims[0], heads * kNsPerGate, [&](int64_t first, int64_t last) {
        for (int64_t t = first; t < last; ++t)
          for (int64_t i = 0; i < heads; i += kLanes) {
            const int64_t n = heads - i;
            const F32x16 step = Softplus(LoadPart(a.row<uint16_t>(t) + i, n) +
                                         LoadPart(bias + i, n));
            const F32x16 decay = exact::Negate(Exp(LoadPart(rate + i, n)));
            StorePart(g.row<float>(t) + i, decay * step, n);
            StorePart(beta.row<float>(t) + i,
                      Sigmoid(LoadPart(b.row<uint16_t>(t) + i, n)), n);
          }
      });
}

void GatedDelta(ThreadPool& pool, Tensor q, Tensor k, Tensor v, Tensor g,
                Tensor beta, const Sequences& sequences, Tensor state,
                Tensor y) {
  const int64_t key_heads = q.dims[1];
  const int64_t key_size = q.dims[2];
  const int64_t heads = v.dims[1];
  const int64_t value_size = v.dims[2];
  if (q.dims[0] == 0) return;
  const int64_t blocks = (value_size + kLanes - 1) / kLanes;
  const int64_t pieces = sequences.count() * heads * blocks;
  const double work = static_cast<double>(q.dims[0]) * heads * value_size *
                      key_size * kNsPerStateElement;
  const int32_t* first_row = sequences.first_row.row<int32_t>(0);
  ForRanges(pool, pieces, work / pieces, [&](int64_t first, int64_t last) {
    for (int64_t piece = first; piece < last; ++piece) {
      const int64_t s = piece / (heads * blocks);
      const int64_t head = piece / blocks % heads;
      const int64_t column = piece % blocks * kLanes;
      const int64_t start = first_row[s];
      const int64_t rows = first_row[s + 1] - start;
      if (rows == 0) continue;
      const Columns columns = {
          .key_size = key_size,
          .parts = (key_size + kLanes - 1) / kLanes,
          .count = std::min(kLanes, value_size - column),
          .query_offset = head * key_heads / heads * key_size,
          .value_offset = head * value_size + column,
          .head = head};
      const Inputs in = {Rows(q, start, rows),    Rows(k, start, rows),
                         Rows(v, start, rows),    Rows(g, start, rows),
                         Rows(beta, start, rows), Rows(y, start, rows)};
      const int64_t slot = sequences.state_slot.row<int32_t>(0)[s];
      AdvanceColumns(columns, in, sequences.past.row<int32_t>(0)[s] == 0,
                     state.row<float>(slot) + columns.value_offset * key_size);
    }
  });
}

}  // namespace phalanx::PHALANX_ISA
