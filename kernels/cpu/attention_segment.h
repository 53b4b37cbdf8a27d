#ifndef PHALANX_KERNELS_CPU_ATTENTION_SEGMENT_H_
#define PHALANX_KERNELS_CPU_ATTENTION_SEGMENT_H_

// Attention over one segment, written once for all kernel families. What a
// family brings are its products, `Products`:
//
//   LoadQuery(query, shape, room)         one query for ScoreKeys, padded
//   floats ScoreKeys<kCount>(...)                sixteen scores, scaled
//   StoreProbabilities(p, scores, v)      in place of the query's scores 16 v
//   .. AddValues<kCount, kWhole>(step, ...)  32 dimensions of kCount outputs
//
// See FmaProducts (attention_fma.cc) for what they compute.

#include <algorithm>
#include <cstring>

#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/vec.h"

namespace phalanx::PHALANX_ISA {

inline constexpr int64_t kBlock = kKvBlockTokens;
inline constexpr int64_t kBlocksPerSegment = kAttentionSegmentTokens / kBlock;

// Elements of a key or value in a cache line.
inline constexpr int64_t kLineElements = 32;

// Starts fetching a line that will be read soon; any address will do.
inline void Prefetch(const uint16_t* p) { __builtin_prefetch(p, 0, 2); }

// Keeps x in a register: GCC would rather load it again for each use, and there
// is but one load a cycle.
inline void Hold([[maybe_unused]] F32x16& x) {
#ifdef __AVX512F__
  asm("" : "+v"(x.v));
#endif
}

// One block of keys or values and the queries that see any of it.
struct BlockView {
  const uint16_t* data;  // [64, D]
  int64_t start;         // Position of its first token.
  int64_t first_query;   // Queries before it see none.
};

// 32 dimensions of a block's values and of neighbouring queries.
struct ValueStep {
  const uint16_t* values;      // At the first dimension, rows `stride` apart.
  int64_t stride;              // D
  int64_t width;               // Dimensions that exist, from the first on.
  const float* probabilities;  // [queries, 64]
  const float* correction;     // [queries]
  const int64_t* seen;         // [queries], ascending, 1 .. 64
  const uint16_t* ahead;       // Asked for, a line a position.
  float* output;               // Rows `padded` apart.
  int64_t padded;
};

// How many of the block's tokens query i sees, 1 .. 64.
inline int64_t Seen(const AttentionShape& shape, const AttentionTile& tile,
                    int64_t start, int64_t i) {
  const int64_t position = tile.first_position + i / shape.group();
  return std::min(position - start + 1, kBlock);
}

// Calls body<kCount>(i) for neighbouring groups of queries i .. i + kCount - 1.
template <typename Body>
void ForQueries(int64_t first, int64_t end, const Body& body) {
  int64_t i = first;
  for (; i + 8 <= end; i += 8) body.template operator()<8>(i);
  if (i + 4 <= end) body.template operator()<4>(i), i += 4;
  if (i + 2 <= end) body.template operator()<2>(i), i += 2;
  if (i < end) body.template operator()<1>(i);
}

// Scores of the block's keys; those that a query does not see are undefined,
// and so are those of absent keys, whose memory is read. The values will be
// asked for next.
template <typename Products>
void ScoreBlock(const AttentionShape& shape, const AttentionTile& tile,
                const BlockView& keys, const BlockView& values, int64_t queries,
                const AttentionRoom& room) {
  const auto score = [&]<int kCount>(int64_t i) {
    const int64_t seen = Seen(shape, tile, keys.start, i + kCount - 1);
    for (int64_t j = 0; j < seen; j += kLanes / kCount)
      Products::template ScoreKeys<kCount>(
          shape, room.queries + i * shape.padded(),
          keys.data + j * shape.head_size, values.data + j * shape.head_size,
          room.scores + i * kBlock + j);
  };
  ForQueries(keys.first_query, queries, score);
}

// Puts sixteen scores, of kCount queries with 16 / kCount keys each, into the
// queries' rows.
template <int kCount>
void StoreScores(F32x16 all, float* scores) {
  constexpr int kKeys = kLanes / kCount;
  alignas(64) float lanes[kLanes];
  Store(lanes, all);
  for (int i = 0; i < kCount; ++i)
    std::memcpy(scores + i * kBlock, lanes + i * kKeys, kKeys * sizeof(float));
}

// Takes one query's `seen` new scores into its running maximum and sum, and
// puts the probabilities, rounded to bf16, in their place. The result is the
// factor for what was summed before.
template <typename Products>
float UpdateSoftmax(float* scores, int64_t seen, float* max, float* sums) {
  const F32x16 absent = Broadcast(-exact::kInfinity);
  F32x16 parts[kBlock / kLanes];
  F32x16 top = absent;
  const int64_t count = (seen + kLanes - 1) / kLanes;
  for (int64_t v = 0; v < count; ++v) {
    const F32x16 loaded = Load(scores + v * kLanes);
    parts[v] = Select(FirstLanes(seen - v * kLanes), loaded, absent);
    top = Max(parts[v], top);
  }
  const float block_max = HorizontalMax(top);
  const float new_max = block_max > *max ? block_max : *max;
  const F32x16 factor = Exp(Broadcast(*max) - Broadcast(new_max));
  F32x16 sum = Load(sums) * factor;
  for (int64_t v = 0; v < count; ++v) {
    const F32x16 p = Exp(parts[v] - Broadcast(new_max));
    sum = sum + p;
    Products::StoreProbabilities(p, scores, v);
  }
  Store(sums, sum);
  *max = new_max;
  return FirstLane(factor);
}

// The keys at `next` will be asked for after this: as many lines as there are
// positions, for each step of dimensions.
template <typename Products>
void AddBlockValues(const AttentionShape& shape, const AttentionTile& tile,
                    const BlockView& block, const uint16_t* next,
                    int64_t queries, const AttentionRoom& room, float* output) {
  const int64_t padded = shape.padded();
  for (int64_t d = 0; d < padded; d += kDimStep) {
    const auto add = [&]<int kCount>(int64_t i) {
      int64_t seen[kCount];
      for (int n = 0; n < kCount; ++n)
        seen[n] = Seen(shape, tile, block.start, i + n);
      const ValueStep step = {.values = block.data + d,
                              .stride = shape.head_size,
                              .width = shape.head_size - d,
                              .probabilities = room.scores + i * kBlock,
                              .correction = room.correction + i,
                              .seen = seen,
                              .ahead = next + d * kBlock,
                              .output = output + i * padded + d,
                              .padded = padded};
      if (step.width >= kDimStep)
        Products::template AddValues<kCount, true>(step);
      else
        Products::template AddValues<kCount, false>(step);
    };
    ForQueries(block.first_query, queries, add);
  }
}

template <typename Products>
void LoadQueriesAs(const AttentionShape& shape, const AttentionTile& tile,
                   const Tensor& q, const AttentionRoom& room) {
  const int64_t group = shape.group();
  for (int64_t i = 0; i < tile.rows * group; ++i) {
    const int64_t head = tile.kv_head * group + i % group;
    Products::LoadQuery(
        q.row<uint16_t>(tile.first_row + i / group) + head * shape.head_size,
        shape, room.queries + i * shape.padded());
  }
}

template <typename Products>
void AttendSegmentAs(const AttentionShape& shape, const AttentionTile& tile,
                     const Tensor& keys, const Tensor& values,
                     const Sequences& sequences, int64_t segment,
                     const AttentionRoom& room, AttentionPart part) {
  const int64_t queries = tile.rows * shape.group();
  const int32_t* table = sequences.block_table.row<int32_t>(tile.sequence);
  const int64_t head_offset = tile.kv_head * kBlock * shape.head_size;
  std::fill_n(part.max, queries, -exact::kInfinity);
  std::memset(room.sums, 0, queries * kLanes * sizeof(float));
  std::memset(part.output, 0, queries * shape.padded() * sizeof(float));
  const int64_t last = tile.last_position() / kBlock;
  const int64_t first = segment * kBlocksPerSegment;
  for (int64_t b = first; b <= std::min(last, first + kBlocksPerSegment - 1);
       ++b) {
    const auto view = [&](const Tensor& cache) {
      return BlockView{.data = cache.row<uint16_t>(table[b]) + head_offset,
                       .start = b * kBlock,
                       .first_query = FirstQueryAt(shape, tile, b * kBlock)};
    };
    const BlockView block_keys = view(keys);
    const BlockView block_values = view(values);
    ScoreBlock<Products>(shape, tile, block_keys, block_values, queries, room);
    for (int64_t i = block_keys.first_query; i < queries; ++i)
      room.correction[i] = UpdateSoftmax<Products>(
          room.scores + i * kBlock, Seen(shape, tile, block_keys.start, i),
          part.max + i, room.sums + i * kLanes);
    const uint16_t* next =
        keys.row<uint16_t>(table[std::min(b + 1, last)]) + head_offset;
    AddBlockValues<Products>(shape, tile, block_values, next, queries, room,
                             part.output);
  }
  for (int64_t i = 0; i < queries; ++i)
    part.sum[i] = HorizontalSum(Load(room.sums + i * kLanes));
}

// The functions of one family.
template <typename Products>
constexpr AttentionKernels AttentionKernelsOf() {
  return {LoadQueriesAs<Products>, AttendSegmentAs<Products>};
}

}  // namespace phalanx::PHALANX_ISA

#endif  // PHALANX_KERNELS_CPU_ATTENTION_SEGMENT_H_
