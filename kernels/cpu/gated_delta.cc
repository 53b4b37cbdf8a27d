// The gated delta rule, token by token (design.md section 3, rule 4). Value
// columns are independent of each other, so sixteen of them at a time, or twice
// sixteen, walk through all tokens of the step with their rows of S in L1.

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

// Blocks of sixteen columns that walk together through many tokens: at Dk = 128
// their rows of S take half of the nearest cache.
constexpr int64_t kBlocksTogether = 2;

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

// WriteRows of one token, then ReadRows of the next, on rows that are in
// registers in between: S is loaded and stored once a token. Inline, like the
// rest of a token's work: 20 % were lost to what passed through memory between
// functions and, once loaded, waited for the stores of S in front of it.
template <int kParts>
[[gnu::always_inline]] inline void WriteAndReadRows(
    const float* written_k, const float* delta, F32x16 e, const float* k,
    const float* q, float* s, F32x16* with_k, F32x16* with_q) {
  F32x16 held_written[kParts];
  F32x16 held_k[kParts];
  F32x16 held_q[kParts];
#pragma GCC unroll 8
  for (int p = 0; p < kParts; ++p) {
    held_written[p] = Load(written_k + p * kLanes);
    held_k[p] = Load(k + p * kLanes);
    held_q[p] = Load(q + p * kLanes);
  }
  for (int64_t j = 0; j < kLanes; ++j) {
    const F32x16 d = Broadcast(delta[j]);
    float* row = s + j * kParts * kLanes;
    F32x16 sum_k = Zero();
    F32x16 sum_q = Zero();
#pragma GCC unroll 8
    for (int p = 0; p < kParts; ++p) {
      const F32x16 part = Fma(d, held_written[p], e * Load(row + p * kLanes));
      Store(row + p * kLanes, part);
      sum_k = Fma(part, held_k[p], sum_k);
      sum_q = Fma(part, held_q[p], sum_q);
    }
    with_k[j] = sum_k;
    with_q[j] = sum_q;
  }
}

// What all columns of a head share at one token.
struct Token {
  const float* q;
  const float* k;
  F32x16 e;        // exp(g)
  F32x16 k_dot_q;  // In every lane.
  F32x16 beta;
};

[[gnu::always_inline]] inline Token TokenOf(const float* q, const float* k,
                                            int64_t parts, float g,
                                            float beta) {
  F32x16 k_times_q = Zero();
  for (int64_t p = 0; p < parts; ++p)
    k_times_q = Fma(Load(k + p * kLanes), Load(q + p * kLanes), k_times_q);
  return {.q = q,
          .k = k,
          .e = Exp(Broadcast(g)),
          .k_dot_q = Broadcast(HorizontalSum(k_times_q)),
          .beta = Broadcast(beta)};
}

// One token once S, before it is written, has met k and q: with e = exp(g)
//   m = e (S k), delta = beta (v - m), y = e (S q) + delta (k q),
//   S <- e S + delta k^T
// of which the last line is left to do.
[[gnu::always_inline]] inline void Conclude(
    const Columns& columns, const Token& token, const F32x16* with_k,
    const F32x16* with_q, const float* v, float* y, float* delta) {
  const F32x16 m = token.e * HorizontalSums(with_k);
  const F32x16 change = token.beta * (LoadPart(v, columns.count) - m);
  const F32x16 read = token.e * HorizontalSums(with_q);
  StorePart(y, Fma(change, token.k_dot_q, read), columns.count);
  Store(delta, change);
}

// A row of k or q, in place where it is whole vectors, else padded by zeros.
const float* Padded(const float* x, const Columns& columns, float* room) {
  if (columns.key_size % kLanes == 0) return x;
  for (int64_t i = 0; i < columns.parts * kLanes; i += kLanes)
    Store(room + i, LoadPart(x + i, columns.key_size - i));
  return room;
}

// s holds sixteen rows of `parts` vectors.
template <int kParts>
void WalkTokens(const Columns& columns, const Inputs& in, float* s,
                float* room) {
  const int64_t parts = kParts > 0 ? kParts : columns.parts;
  const int64_t rows = in.q.dims[0];
  for (int64_t t = 0; t < rows; ++t) {
    const float* k =
        Padded(in.k.row<float>(t) + columns.query_offset, columns, room);
    const float* q = Padded(in.q.row<float>(t) + columns.query_offset, columns,
                            room + parts * kLanes);
    F32x16 with_k[kLanes];
    F32x16 with_q[kLanes];
    if (t + 1 < rows)
      ReadRows<kParts, 0>(s, k, q, parts, with_k, with_q);
    else
      ReadRows<kParts, kAheadFloats>(s, k, q, parts, with_k, with_q);
    const Token token = TokenOf(q, k, parts, in.g.row<float>(t)[columns.head],
                                in.beta.row<float>(t)[columns.head]);
    alignas(64) float delta[kLanes];
    Conclude(columns, token, with_k, with_q,
             in.v.row<float>(t) + columns.value_offset,
             in.y.row<float>(t) + columns.value_offset, delta);
    WriteRows<kParts>(k, delta, token.e, parts, s);
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

// Asks for what token t reads and writes. Rows are far apart, often by a
// multiple of what a way of the cache holds, so none stays and no prefetcher of
// the processor follows.
void PrefetchToken(const Columns& columns, const Inputs& in, int64_t t,
                   int64_t floats, int64_t key_floats) {
  const float* k = in.k.row<float>(t) + columns.query_offset;
  const float* q = in.q.row<float>(t) + columns.query_offset;
  for (int64_t i = 0; i < key_floats; i += kLanes) {
    __builtin_prefetch(k + i, 0, 3);
    __builtin_prefetch(q + i, 0, 3);
  }
  for (int64_t i = 0; i < floats; i += kLanes) {
    __builtin_prefetch(in.v.row<float>(t) + columns.value_offset + i, 0, 3);
    __builtin_prefetch(in.y.row<float>(t) + columns.value_offset + i, 1, 3);
  }
}

// WalkTokens for several tokens and kBlocks times sixteen neighbouring columns
// of a head, all there, on whole vectors: while the lanes of one block's sums
// are added up, one addition waiting for the other, the next block's rows keep
// the processor busy. Out of line, so that GCC's use of registers does not
// depend on what calls it: inlined, 0.65 to 0.76 of the f32 peak, not 0.8.
template <int kParts, int kBlocks>
[[gnu::noinline]] void WalkTogether(const Columns& columns, const Inputs& in,
                                    float* s) {
  constexpr int64_t kBlockFloats = kLanes * kParts * kLanes;
  const int64_t rows = in.q.dims[0];
  alignas(64) float delta[kBlocks][kLanes];
  const float* written_k = nullptr;
  F32x16 written_e = Zero();
  for (int64_t t = 0; t < rows; ++t) {
    if (t + 1 < rows)
      PrefetchToken(columns, in, t + 1, kBlocks * kLanes, kParts * kLanes);
    const Token token = TokenOf(in.q.row<float>(t) + columns.query_offset,
                                in.k.row<float>(t) + columns.query_offset,
                                kParts, in.g.row<float>(t)[columns.head],
                                in.beta.row<float>(t)[columns.head]);
#pragma GCC unroll 2
    for (int b = 0; b < kBlocks; ++b) {
      float* rows_of_s = s + b * kBlockFloats;
      F32x16 with_k[kLanes];
      F32x16 with_q[kLanes];
      if (t == 0)
        ReadRows<kParts, 0>(rows_of_s, token.k, token.q, kParts, with_k,
                            with_q);
      else
        WriteAndReadRows<kParts>(written_k, delta[b], written_e, token.k,
                                 token.q, rows_of_s, with_k, with_q);
      const int64_t offset = columns.value_offset + b * kLanes;
      Conclude(columns, token, with_k, with_q, in.v.row<float>(t) + offset,
               in.y.row<float>(t) + offset, delta[b]);
    }
    written_k = token.k;
    written_e = token.e;
  }
  for (int b = 0; b < kBlocks; ++b)
    WriteRows<kParts>(written_k, delta[b], written_e, kParts,
                      s + b * kBlockFloats);
}

// Whether 16 `blocks` columns from this one on may walk together; if so, they
// have. state: their rows of S, [16 blocks, Dk].
bool WalkedTogether(const Columns& columns, const Inputs& in, int64_t blocks,
                    float* state) {
  constexpr int64_t kUsualParts = 8;
  if (in.q.dims[0] == 1 || columns.count < kLanes ||
      columns.key_size != kUsualParts * kLanes)
    return false;
  if (blocks == 1)
    WalkTogether<kUsualParts, 1>(columns, in, state);
  else
    WalkTogether<kUsualParts, kBlocksTogether>(columns, in, state);
  return true;
}

// state: the columns' rows of S, [count, Dk]. They are worked on in place where
// they are whole vectors, else in a copy padded by zeros.
void AdvanceColumns(const Columns& columns, const Inputs& in, float* state) {
  static thread_local Scratch scratch;
  const int64_t stride = columns.parts * kLanes;
  const size_t bytes = columns.key_size * sizeof(float);
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

// `blocks` times sixteen columns from `columns` on; of more than one, all are
// there.
void AdvanceBlocks(const Columns& columns, const Inputs& in, int64_t blocks,
                   bool fresh, float* state) {
  const int64_t count = (blocks - 1) * kLanes + columns.count;
  if (fresh) std::memset(state, 0, count * columns.key_size * sizeof(float));
  if (WalkedTogether(columns, in, blocks, state)) return;
  Columns block = columns;
  for (int64_t b = 0; b < blocks; ++b) {
    AdvanceColumns(block, in, state + b * kLanes * columns.key_size);
    block.value_offset += kLanes;
  }
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
    for (int64_t piece = first; piece < last;) {
      const int64_t s = piece / (heads * blocks);
      const int64_t head = piece / blocks % heads;
      const int64_t column = piece % blocks * kLanes;
      const int64_t start = first_row[s];
      const int64_t rows = first_row[s + 1] - start;
      const bool together = piece + kBlocksTogether <= last &&
                            column + kBlocksTogether * kLanes <= value_size;
      const int64_t taken = together ? kBlocksTogether : 1;
      piece += taken;
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
      float* rows_of_s =
          state.row<float>(slot) + columns.value_offset * key_size;
      AdvanceBlocks(columns, in, taken, sequences.past.row<int32_t>(0)[s] == 0,
                    rows_of_s);
    }
  });
}

}  // namespace phalanx::PHALANX_ISA
