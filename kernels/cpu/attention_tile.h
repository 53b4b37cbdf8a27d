#ifndef PHALANX_KERNELS_CPU_ATTENTION_TILE_H_
#define PHALANX_KERNELS_CPU_ATTENTION_TILE_H_

// Attention of a few neighbouring queries over one segment of positions, and
// the merging of segments: the two chains of design.md section 3, rule 3. Which
// queries sit together, and who computes which segment, is attention.cc's
// business and changes no bit.

#include <cstdint>

#include "kernels/sequences.h"
#include "kernels/tensor.h"

namespace phalanx {
class ThreadPool;
}

namespace phalanx::PHALANX_ISA {

// Dimensions are walked in steps of two vectors; scratch rows are padded to it
// by zeros.
inline constexpr int64_t kDimStep = 32;

struct AttentionShape {
  int64_t heads;      // Nq
  int64_t kv_heads;   // Nk
  int64_t head_size;  // D
  float scale;

  int64_t group() const { return heads / kv_heads; }
  int64_t padded() const {
    return (head_size + kDimStep - 1) / kDimStep * kDimStep;
  }
};

// Rows of one sequence, seen by the query heads of one key head. Query i is row
// i / group, head kv_head * group + i % group; so positions ascend.
struct AttentionTile {
  int64_t sequence;
  int64_t kv_head;
  int64_t first_row;  // In the step.
  int64_t rows;
  int64_t first_position;  // Of the first row.

  int64_t last_position() const { return first_position + rows - 1; }
};

// Softmax state of a tile's queries: the largest score, the sum of
// exp(score - max), and that sum with the values, [queries, padded].
struct AttentionPart {
  float* max;
  float* sum;
  float* output;

  static int64_t Floats(int64_t queries, int64_t padded) {
    return queries * (padded + 32);
  }
  static AttentionPart In(float* memory, int64_t queries, int64_t padded) {
    return {memory + queries * padded, memory + queries * (padded + 16),
            memory};
  }
};

// A thread's working memory for tiles of one size.
struct AttentionRoom {
  float* queries;     // [queries, padded], f32 or, in half of it, bf16
  float* scores;      // [4 blocks, queries, 64]; then the probabilities, alike
  float* correction;  // [4 blocks, queries]
  float* sums;        // [queries, 16]
  int64_t* seen;      // [queries]: tokens of the segment and before, from it on
  uint16_t* values;   // [4 blocks, 64, 32], as a family packs them

  static int64_t Floats(int64_t queries, int64_t padded);
  static AttentionRoom In(float* memory, int64_t queries, int64_t padded);
};

// One kernel family's arithmetic inside a segment.
struct AttentionKernels {
  // Puts the tile's queries into room, as attend_segment wants them.
  void (*load_queries)(const AttentionShape& shape, const AttentionTile& tile,
                       const Tensor& q, const AttentionRoom& room);

  // Attention over positions 256 * segment and on, of the queries that stand
  // there or later; the others' part is undefined.
  void (*attend_segment)(const AttentionShape& shape, const AttentionTile& tile,
                         const Tensor& keys, const Tensor& values,
                         const Sequences& sequences, int64_t segment,
                         const AttentionRoom& room, AttentionPart part);
};

// Family fma. Family bf16dot is in attention_bf16dot.cc, for avx512 alone.
const AttentionKernels& FmaAttention();

// PagedAttention (ops.h) by one family's arithmetic.
void PagedAttentionBy(const AttentionKernels& kernels, ThreadPool& pool,
                      Tensor q, Tensor keys, Tensor values,
                      const Sequences& sequences, float scale, Tensor y);

// The tile's first query at or after `position`.
int64_t FirstQueryAt(const AttentionShape& shape, const AttentionTile& tile,
                     int64_t position);

// total <- total merged with `part`, which is the next segment's; the first is
// copied.
void MergeSegment(const AttentionShape& shape, const AttentionTile& tile,
                  int64_t segment, AttentionPart part, AttentionPart total);

// y = output / sum for the tile's rows.
void StoreOutput(const AttentionShape& shape, const AttentionTile& tile,
                 AttentionPart total, const Tensor& y);

}  // namespace phalanx::PHALANX_ISA

#endif  // PHALANX_KERNELS_CPU_ATTENTION_TILE_H_
