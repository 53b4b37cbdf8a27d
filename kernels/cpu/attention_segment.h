#ifndef PHALANX_KERNELS_CPU_ATTENTION_SEGMENT_H_
#define PHALANX_KERNELS_CPU_ATTENTION_SEGMENT_H_

// Attention over one segment, written once for all kernel families. What a
// family brings are its products, `Products`:
//
//   QueryFloats(shape)               room that a query takes
//   LoadQuery(query, shape, room)    one query for ScoreKeys, padded
//   ScoreKeys<kCount>(...)           sixteen scores, scaled
//   kQueriesToScore                  kCount where there are queries enough
//   StoreProbabilities(p, scores, v)   in place of the query's scores 16 v ..
//   AddValues<kCount, Values>(step, low, high)
//                                    a block's to 32 dimensions of kCount sums
//   WholeRows, PartRows              how AddValues finds values (Values) in
//                                    rows of the cache: 32 dimensions, or fewer
//   kPacks, PackValues, PackedRows   whether values that many queries share
//                                    are better copied first, by what, and how
//                                    they are found then
//
// See FmaProducts (attention_fma.cc) for what they compute.

#include <algorithm>
#include <cstring>

#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/vec.h"

namespace phalanx::PHALANX_ISA {

inline constexpr int64_t kBlock = kKvBlockTokens;
inline constexpr int64_t kBlocksPerSegment = kAttentionSegmentTokens / kBlock;

// Keys that meet all queries before the next ones: 16 KiB at D = 256.
inline constexpr int64_t kKeysTogether = 32;

// Fewer queries read values where they lie: two groups pay for the copy.
inline constexpr int64_t kQueriesToPackFor = 16;

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
  int64_t index;         // In the segment.
  int64_t first_query;   // Queries before it see none.
};

// The blocks of a segment that the tile sees.
struct SegmentBlocks {
  int64_t count;
  BlockView keys[kBlocksPerSegment];
  BlockView values[kBlocksPerSegment];
  const uint16_t* next[kBlocksPerSegment];  // Keys that will be read after it.
};

// 32 dimensions of a block's values and of neighbouring queries.
struct ValueStep {
  const uint16_t* values;      // At the first dimension, rows `stride` apart.
  int64_t stride;              // D
  int64_t width;               // Dimensions that exist, from the first on.
  const uint16_t* packed;      // [64, 32] of PackValues, if they are packed.
  const float* probabilities;  // [queries, 64]
  const int64_t* seen;         // [queries], ascending; below 1: none
  const uint16_t* ahead;       // Lines to be asked for, `lines` of them, a line
  int64_t lines;               // a position.
};

// How many tokens of the segment's block b query i sees, at most 64; below 1:
// none.
inline int64_t Seen(const AttentionRoom& room, int64_t b, int64_t i) {
  return std::min(room.seen[i] - b * kBlock, kBlock);
}

// What Seen reads: divisions, which each use of it would cost again.
inline void CountSeen(const AttentionShape& shape, const AttentionTile& tile,
                      int64_t segment, const AttentionRoom& room) {
  int64_t seen = tile.first_position - segment * kAttentionSegmentTokens + 1;
  int64_t* out = room.seen;
  for (int64_t row = 0; row < tile.rows; ++row, ++seen)
    for (int64_t i = 0; i < shape.group(); ++i) *out++ = seen;
}

// Calls body<kCount>(i) for neighbouring groups of queries i .. i + kCount - 1,
// of at most kMost, which is 4 or 8.
template <int kMost, typename Body>
void ForQueries(int64_t first, int64_t end, const Body& body) {
  int64_t i = first;
  for (; i + kMost <= end; i += kMost) body.template operator()<kMost>(i);
  if (i + 4 <= end) body.template operator()<4>(i), i += 4;
  if (i + 2 <= end) body.template operator()<2>(i), i += 2;
  if (i < end) body.template operator()<1>(i);
}

// Scores of the block's keys; those that a query does not see are undefined,
// and so are those of absent keys, whose memory is read. Some keys meet all
// queries before the next, so both come from the nearest cache. The values will
// be asked for next: each product fetches its share.
template <typename Products>
void ScoreBlock(const AttentionShape& shape, const BlockView& keys,
                const BlockView& values, int64_t queries,
                const AttentionRoom& room, float* scores) {
  const int64_t products = (queries - keys.first_query) * kBlock / kLanes;
  const int64_t lines = shape.head_size * kBlock / kLineElements;
  const int64_t share = lines / std::max<int64_t>(products, 1) + 1;
  int64_t fetched = 0;
  for (int64_t first = 0; first < kBlock; first += kKeysTogether) {
    const auto score = [&]<int kCount>(int64_t i) {
      const int64_t seen = std::min(Seen(room, keys.index, i + kCount - 1),
                                    first + kKeysTogether);
      for (int64_t j = first; j < seen; j += kLanes / kCount) {
        for (const int64_t end = std::min(fetched + share, lines);
             fetched < end; ++fetched)
          Prefetch(values.data + fetched * kLineElements);
        Products::template ScoreKeys<kCount>(
            shape, room.queries + i * Products::QueryFloats(shape),
            keys.data + j * shape.head_size, scores + i * kBlock + j);
      }
    };
    ForQueries<Products::kQueriesToScore>(keys.first_query, queries, score);
  }
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

// Sixteen scores from v, -inf for those that are not seen. kAll says that all
// 64 are.
template <bool kAll>
F32x16 SeenScores(const float* scores, int64_t seen, int64_t v) {
  const F32x16 loaded = Load(scores + v * kLanes);
  return kAll ? loaded
              : Select(FirstLanes(seen - v * kLanes), loaded,
                       Broadcast(-exact::kInfinity));
}

template <bool kAll>
float LargestScore(const float* scores, int64_t seen) {
  F32x16 top = Broadcast(-exact::kInfinity);
#pragma GCC unroll 4
  for (int64_t v = 0; v < kBlock / kLanes; ++v)
    if (kAll || v * kLanes < seen)
      top = Max(SeenScores<kAll>(scores, seen, v), top);
  return HorizontalMax(top);
}

// Puts the probabilities, rounded to bf16, in place of a query's scores and
// adds them, unrounded, to its sums.
template <typename Products, bool kAll>
void TakeProbabilities(float* scores, int64_t seen, float max, float factor,
                       float* sums) {
  F32x16 sum = Load(sums) * Broadcast(factor);
#pragma GCC unroll 4
  for (int64_t v = 0; v < kBlock / kLanes; ++v) {
    if (!kAll && v * kLanes >= seen) break;
    const F32x16 p = Exp(SeenScores<kAll>(scores, seen, v) - Broadcast(max));
    sum = sum + p;
    Products::StoreProbabilities(p, scores, v);
  }
  Store(sums, sum);
}

// Takes the block's scores into the running maxima and sums of the queries that
// see any, sixteen at a time, since each has a factor for what was summed
// before: correction.
template <typename Products>
void UpdateSoftmax(const BlockView& block, int64_t queries,
                   const AttentionRoom& room, float* scores, float* max) {
  float* correction = room.correction + block.index * queries;
  std::fill_n(correction, block.first_query, 1.0f);
  for (int64_t first = block.first_query; first < queries; first += kLanes) {
    const int64_t count = std::min(queries - first, kLanes);
    const auto seen = [&](int64_t i) {
      return Seen(room, block.index, first + i);
    };
    const bool all = seen(0) == kBlock;
    alignas(64) float largest[kLanes] = {};
    for (int64_t i = 0; i < count; ++i)
      largest[i] =
          all ? LargestScore<true>(scores + (first + i) * kBlock, kBlock)
              : LargestScore<false>(scores + (first + i) * kBlock, seen(i));
    const F32x16 block_max = Load(largest);
    const F32x16 old_max = LoadPart(max + first, count);
    const F32x16 new_max = Select(Less(old_max, block_max), block_max, old_max);
    StorePart(max + first, new_max, count);
    StorePart(correction + first, Exp(old_max - new_max), count);
    const auto take = [&]<bool kAll>(int64_t i) {
      TakeProbabilities<Products, kAll>(scores + (first + i) * kBlock, seen(i),
                                        max[first + i], correction[first + i],
                                        room.sums + (first + i) * kLanes);
    };
    for (int64_t i = 0; i < count; ++i)
      all ? take.template operator()<true>(i)
          : take.template operator()<false>(i);
  }
}

// output <- for each block output * correction + probabilities * values: 32
// dimensions from d on of kCount queries from i on, which stay in registers
// until the segment's end.
template <typename Products, typename Values, int kCount>
void SumValues(const AttentionShape& shape, const SegmentBlocks& blocks,
               int64_t queries, int64_t d, int64_t i, const AttentionRoom& room,
               float* output) {
  const int64_t padded = shape.padded();
  // Each group of queries fetches its share of the next keys.
  const int64_t first = blocks.values[0].first_query;
  const int64_t share = kBlock * kCount / (queries - first) + 1;
  const int64_t fetched = std::min(kBlock, (i - first) / kCount * share);
  F32x16 low[kCount];
  F32x16 high[kCount];
#pragma GCC unroll 8
  for (int n = 0; n < kCount; ++n) low[n] = high[n] = Zero();
  for (int64_t b = 0; b < blocks.count; ++b) {
    const BlockView& block = blocks.values[b];
    int64_t seen[kCount];
#pragma GCC unroll 8
    for (int n = 0; n < kCount; ++n) seen[n] = Seen(room, b, i + n);
    if (seen[kCount - 1] < 1) break;
    const float* correction = room.correction + b * queries + i;
#pragma GCC unroll 8
    for (int n = 0; n < kCount; ++n) {
      const F32x16 factor = Broadcast(correction[n]);
      low[n] = low[n] * factor;
      high[n] = high[n] * factor;
    }
    const int64_t lines = std::min(share, kBlock - fetched);
    const ValueStep step = {
        .values = block.data + d,
        .stride = shape.head_size,
        .width = shape.head_size - d,
        .packed = room.values + b * kBlock * kDimStep,
        .probabilities = room.scores + (b * queries + i) * kBlock,
        .seen = seen,
        .ahead = blocks.next[b] + d * kBlock + fetched * kLineElements,
        .lines = lines};
    Products::template AddValues<kCount, Values>(step, low, high);
  }
#pragma GCC unroll 8
  for (int n = 0; n < kCount; ++n) {
    Store(output + (i + n) * padded + d, low[n]);
    Store(output + (i + n) * padded + d + kLanes, high[n]);
  }
}

// The output of all queries that see any of the segment. Its next keys are
// asked for meanwhile: as many lines as there are positions, for each step of
// dimensions.
template <typename Products>
void SumSegmentValues(const AttentionShape& shape, const SegmentBlocks& blocks,
                      int64_t queries, const AttentionRoom& room,
                      float* output) {
  const int64_t first = blocks.values[0].first_query;
  for (int64_t d = 0; d < shape.padded(); d += kDimStep) {
    const auto sum_as = [&]<typename Values>() {
      ForQueries<8>(first, queries, [&]<int kCount>(int64_t i) {
        SumValues<Products, Values, kCount>(shape, blocks, queries, d, i, room,
                                            output);
      });
    };
    if constexpr (Products::kPacks) {
      if (queries - first >= kQueriesToPackFor) {
        for (int64_t b = 0; b < blocks.count; ++b) {
          const BlockView& block = blocks.values[b];
          Products::PackValues(block.data + d, shape.head_size,
                               shape.head_size - d, Seen(room, b, queries - 1),
                               room.values + b * kBlock * kDimStep);
        }
        sum_as.template operator()<typename Products::PackedRows>();
        continue;
      }
    }
    if (shape.head_size - d >= kDimStep)
      sum_as.template operator()<typename Products::WholeRows>();
    else
      sum_as.template operator()<typename Products::PartRows>();
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
        shape, room.queries + i * Products::QueryFloats(shape));
  }
}

inline SegmentBlocks BlocksOf(const AttentionShape& shape,
                              const AttentionTile& tile, const Tensor& keys,
                              const Tensor& values, const Sequences& sequences,
                              int64_t segment) {
  const int32_t* table = sequences.block_table.row<int32_t>(tile.sequence);
  const int64_t last = tile.last_position() / kBlock;
  const int64_t first = segment * kBlocksPerSegment;
  const auto data = [&](const Tensor& cache, int64_t b) {
    return cache.row<uint16_t>(table[std::min(b, last)]) +
           tile.kv_head * kBlock * shape.head_size;
  };
  SegmentBlocks blocks;
  blocks.count = std::min(last - first + 1, kBlocksPerSegment);
  for (int64_t i = 0; i < blocks.count; ++i) {
    const int64_t b = first + i;
    blocks.keys[i] = {.data = data(keys, b),
                      .index = i,
                      .first_query = FirstQueryAt(shape, tile, b * kBlock)};
    blocks.values[i] = blocks.keys[i];
    blocks.values[i].data = data(values, b);
    blocks.next[i] = data(keys, b + kBlocksPerSegment);
  }
  return blocks;
}

template <typename Products>
void AttendSegmentAs(const AttentionShape& shape, const AttentionTile& tile,
                     const Tensor& keys, const Tensor& values,
                     const Sequences& sequences, int64_t segment,
                     const AttentionRoom& room, AttentionPart part) {
  const int64_t queries = tile.rows * shape.group();
  std::fill_n(part.max, queries, -exact::kInfinity);
  std::memset(room.sums, 0, queries * kLanes * sizeof(float));
  CountSeen(shape, tile, segment, room);
  const SegmentBlocks blocks =
      BlocksOf(shape, tile, keys, values, sequences, segment);
  for (int64_t b = 0; b < blocks.count; ++b) {
    float* scores = room.scores + b * queries * kBlock;
    ScoreBlock<Products>(shape, blocks.keys[b], blocks.values[b], queries, room,
                         scores);
    UpdateSoftmax<Products>(blocks.keys[b], queries, room, scores, part.max);
  }
  SumSegmentValues<Products>(shape, blocks, queries, room, part.output);
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
