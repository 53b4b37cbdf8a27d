#ifndef PHALANX_KERNELS_SEQUENCES_H_
#define PHALANX_KERNELS_SEQUENCES_H_

#include <cstdint>

#include "kernels/tensor.h"

namespace phalanx {

// Tokens of one KV block; KV blocks are the unit of the cache's pool.
inline constexpr int64_t kKvBlockTokens = 64;

// Attention sums positions in segments of this many from position 0, and each
// segment in blocks of kKvBlockTokens (design.md section 3, rule 3).
inline constexpr int64_t kAttentionSegmentTokens = 256;

// A contraction that tensor parallelism may split is always summed in this many
// slices (design.md section 3, rule 1), so TP sizes are its divisors.
inline constexpr int kContractionSlices = 8;

// Which rows of a step belong to which sequence, and where its past lives. S
// sequences; their rows lie one after another, in order. All i32 tensors in the
// backend's memory.
struct Sequences {
  Tensor first_row;    // [S + 1]; sequence s has rows first_row[s] .. [s+1].
  Tensor past;         // [S]; tokens already in the caches; 0: a fresh one.
  Tensor state_slot;   // [S]; its slot of GDN state.
  Tensor block_table;  // [S, M]; KV block of positions 64 i .. 64 i + 63.

  int64_t count() const { return past.dims[0]; }
};

// What Route decides for T tokens, K experts each, of E. i32 and f32 tensors in
// the backend's memory.
struct Routing {
  Tensor expert;   // [T, K] i32; ascending in a row.
  Tensor weight;   // [T, K] f32; of the same experts.
  Tensor offsets;  // [E + 1] i32; expert e has entries offsets[e] .. [e+1].
  Tensor order;    // [T * K] i32; entry -> t * K + j; by expert, then token.
  // [E] i32: where experts lie in a stack of matrices that does not hold all of
  // them in order (ops.h, ExpertsGateUp). Not set by Route; data is null where
  // expert e is matrix e.
  Tensor places = {};

  // The matrix that holds `expert`, for backends whose memory the host reads.
  int64_t place(int64_t expert) const {
    return places.data == nullptr ? expert : places.row<int32_t>(0)[expert];
  }
};

}  // namespace phalanx

#endif  // PHALANX_KERNELS_SEQUENCES_H_
