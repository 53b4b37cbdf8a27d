#include "kernels/cpu/attention_tile.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/vec.h"

namespace phalanx::PHALANX_ISA {
namespace {

constexpr int64_t kBlock = kKvBlockTokens;
constexpr int64_t kBlocksPerSegment = kAttentionSegmentTokens / kBlock;

// Elements of a key or value in a cache line.
constexpr int64_t kLineElements = 32;

// Starts fetching a line that will be read soon; any address will do.
inline void Prefetch(const uint16_t* p) { __builtin_prefetch(p, 0, 2); }

// One block of keys or values and the queries that see any of it.
struct BlockView {
  const uint16_t* data;  // [64, D]
  int64_t start;         // Position of its first token.
  int64_t first_query;   // Queries before it see none.
};

// How many of the block's tokens query i sees, 1 .. 64.
int64_t Seen(const AttentionShape& shape, const AttentionTile& tile,
             int64_t start, int64_t i) {
  const int64_t position = tile.first_position + i / shape.group();
  return std::min(position - start + 1, kBlock);
}

// Keeps x in a register: GCC would rather load it again for each use, and there
// is but one load a cycle.
inline void Hold([[maybe_unused]] F32x16& x) {
#ifdef __AVX512F__
  asm("" : "+v"(x.v));
#endif
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

// The first query at or after `position`.
int64_t FirstQueryAt(const AttentionShape& shape, const AttentionTile& tile,
                     int64_t position) {
  return std::max<int64_t>(position - tile.first_position, 0) * shape.group();
}

// Sixteen products: of kCount queries with the 16 / kCount keys at `keys`, put
// into the queries' rows of `scores`. Each is sixteen chains and the fixed tree
// of vec.h. A key is widened for all queries at once, in registers. Asks for as
// much memory at `ahead` as it reads of the keys.
template <int kCount>
void ScoreKeys(const AttentionShape& shape, const float* queries,
               const uint16_t* keys, const uint16_t* ahead, float* scores) {
  constexpr int kKeys = kLanes / kCount;
  const int64_t size = shape.head_size;
  const int64_t padded = shape.padded();
  F32x16 sums[kLanes];
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) sums[i] = Zero();
  const auto add = [&](int64_t d, const auto& load) {
    F32x16 parts[kKeys];
#pragma GCC unroll 16
    for (int j = 0; j < kKeys; ++j) parts[j] = load(keys + j * size + d);
#pragma GCC unroll 16
    for (int i = 0; i < kCount; ++i) {
      F32x16 query = Load(queries + i * padded + d);
      Hold(query);
#pragma GCC unroll 16
      for (int j = 0; j < kKeys; ++j)
        sums[i * kKeys + j] = Fma(query, parts[j], sums[i * kKeys + j]);
    }
  };
  int64_t d = 0;
  for (; d + kLanes <= size; d += kLanes) {
#pragma GCC unroll 8
    for (int line = 0; line < (kKeys + 1) / 2; ++line)
      Prefetch(ahead + d * kKeys + line * kLineElements);
    add(d, [](const uint16_t* key) { return Load(key); });
  }
  if (d < size)
    add(d, [&](const uint16_t* key) { return LoadTail(key, size - d); });
  alignas(64) float lanes[kLanes];
  Store(lanes, HorizontalSums(sums) * Broadcast(shape.scale));
  for (int i = 0; i < kCount; ++i)
    std::memcpy(scores + i * kBlock, lanes + i * kKeys, kKeys * sizeof(float));
}

// Scores of the block's keys; those that a query does not see are undefined,
// and so are those of absent keys, whose memory is read. The values will be
// asked for next.
void ScoreBlock(const AttentionShape& shape, const AttentionTile& tile,
                const BlockView& keys, const BlockView& values, int64_t queries,
                const AttentionRoom& room) {
  const auto score = [&]<int kCount>(int64_t i) {
    const int64_t seen = Seen(shape, tile, keys.start, i + kCount - 1);
    for (int64_t j = 0; j < seen; j += kLanes / kCount)
      ScoreKeys<kCount>(shape, room.queries + i * shape.padded(),
                        keys.data + j * shape.head_size,
                        values.data + j * shape.head_size,
                        room.scores + i * kBlock + j);
  };
  ForQueries(keys.first_query, queries, score);
}

// Takes one query's `seen` new scores into its running maximum and sum, and
// puts the probabilities, rounded to bf16, in their place. The result is the
// factor for what was summed before.
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
    Store(scores + v * kLanes, RoundToBf16(p));
  }
  Store(sums, sum);
  *max = new_max;
  return FirstLane(factor);
}

// output <- output * correction + probabilities * values for kCount queries,
// two vectors of dimensions each: one chain per element in order of position.
// Queries see different numbers of positions; each stops at its own. `width`
// dimensions exist, up to 32; kWhole says that all do. Asks for one line at
// `ahead` a position.
template <int kCount, bool kWhole>
void AddValues(const uint16_t* values, int64_t stride, int64_t width,
               const float* probabilities, const float* correction,
               const int64_t* seen, int64_t padded, const uint16_t* ahead,
               float* output) {
  F32x16 low[kCount];
  F32x16 high[kCount];
#pragma GCC unroll 8
  for (int i = 0; i < kCount; ++i) {
    const F32x16 factor = Broadcast(correction[i]);
    low[i] = Load(output + i * padded) * factor;
    high[i] = Load(output + i * padded + kLanes) * factor;
  }
  const auto add = [&](int64_t j, const auto& takes) {
    const uint16_t* value = values + j * stride;
    const F32x16 v_low = kWhole ? Load(value) : LoadPart(value, width);
    const F32x16 v_high = kWhole ? Load(value + kLanes)
                          : width > kLanes
                              ? LoadPart(value + kLanes, width - kLanes)
                              : Zero();
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) {
      if (!takes(i)) continue;
      const F32x16 p = Broadcast(probabilities[i * kBlock + j]);
      low[i] = Fma(p, v_low, low[i]);
      high[i] = Fma(p, v_high, high[i]);
    }
  };
  // Positions ascend with the queries, so the first sees the fewest.
  int64_t j = 0;
  for (; j < seen[0]; ++j) {
    Prefetch(ahead + j * kLineElements);
    add(j, [](int) { return true; });
  }
  for (; j < seen[kCount - 1]; ++j) add(j, [&](int i) { return j < seen[i]; });
#pragma GCC unroll 8
  for (int i = 0; i < kCount; ++i) {
    Store(output + i * padded, low[i]);
    Store(output + i * padded + kLanes, high[i]);
  }
}

// The keys at `next` will be asked for after this: as many lines as there are
// positions, for each step of dimensions.
void AddBlockValues(const AttentionShape& shape, const AttentionTile& tile,
                    const BlockView& block, const uint16_t* next,
                    int64_t queries, const AttentionRoom& room, float* output) {
  const int64_t padded = shape.padded();
  for (int64_t d = 0; d < padded; d += kDimStep) {
    const int64_t width = shape.head_size - d;
    const auto add = [&]<int kCount>(int64_t i) {
      int64_t seen[kCount];
      for (int n = 0; n < kCount; ++n)
        seen[n] = Seen(shape, tile, block.start, i + n);
      const auto add_values = width >= kDimStep ? AddValues<kCount, true>
                                                : AddValues<kCount, false>;
      add_values(block.data + d, shape.head_size, width,
                 room.scores + i * kBlock, room.correction + i, seen, padded,
                 next + d * kBlock, output + i * padded + d);
    };
    ForQueries(block.first_query, queries, add);
  }
}

int64_t Aligned(int64_t floats) {
  return (floats + kLanes - 1) / kLanes * kLanes;
}

}  // namespace

int64_t AttentionRoom::Floats(int64_t queries, int64_t padded) {
  return queries * (padded + kBlock + kLanes) + Aligned(queries);
}

AttentionRoom AttentionRoom::In(float* memory, int64_t queries,
                                int64_t padded) {
  AttentionRoom room;
  room.queries = memory;
  room.scores = room.queries + queries * padded;
  room.sums = room.scores + queries * kBlock;
  room.correction = room.sums + queries * kLanes;
  return room;
}

void LoadQueries(const AttentionShape& shape, const AttentionTile& tile,
                 const Tensor& q, const AttentionRoom& room) {
  const int64_t group = shape.group();
  const int64_t padded = shape.padded();
  for (int64_t i = 0; i < tile.rows * group; ++i) {
    const int64_t head = tile.kv_head * group + i % group;
    const uint16_t* query =
        q.row<uint16_t>(tile.first_row + i / group) + head * shape.head_size;
    for (int64_t d = 0; d < padded; d += kLanes) {
      const int64_t n = shape.head_size - d;
      Store(room.queries + i * padded + d,
            n > 0 ? LoadPart(query + d, n) : Zero());
    }
  }
}

void AttendSegment(const AttentionShape& shape, const AttentionTile& tile,
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
    ScoreBlock(shape, tile, block_keys, block_values, queries, room);
    for (int64_t i = block_keys.first_query; i < queries; ++i)
      room.correction[i] = UpdateSoftmax(room.scores + i * kBlock,
                                         Seen(shape, tile, block_keys.start, i),
                                         part.max + i, room.sums + i * kLanes);
    const uint16_t* next =
        keys.row<uint16_t>(table[std::min(b + 1, last)]) + head_offset;
    AddBlockValues(shape, tile, block_values, next, queries, room, part.output);
  }
  for (int64_t i = 0; i < queries; ++i)
    part.sum[i] = HorizontalSum(Load(room.sums + i * kLanes));
}

void MergeSegment(const AttentionShape& shape, const AttentionTile& tile,
                  int64_t segment, AttentionPart part, AttentionPart total) {
  const int64_t padded = shape.padded();
  const int64_t queries = tile.rows * shape.group();
  const int64_t start = segment * kAttentionSegmentTokens;
  for (int64_t i = FirstQueryAt(shape, tile, start); i < queries; ++i) {
    const float* add = part.output + i * padded;
    float* output = total.output + i * padded;
    if (segment == 0) {
      total.max[i] = part.max[i];
      total.sum[i] = part.sum[i];
      std::memcpy(output, add, padded * sizeof(float));
      continue;
    }
    const float max = part.max[i] > total.max[i] ? part.max[i] : total.max[i];
    const F32x16 old_factor = Exp(Broadcast(total.max[i]) - Broadcast(max));
    const F32x16 new_factor = Exp(Broadcast(part.max[i]) - Broadcast(max));
    const F32x16 sum = Fma(Broadcast(total.sum[i]), old_factor,
                           Broadcast(part.sum[i]) * new_factor);
    total.max[i] = max;
    total.sum[i] = FirstLane(sum);
    for (int64_t d = 0; d < padded; d += kLanes)
      Store(output + d,
            Fma(Load(output + d), old_factor, Load(add + d) * new_factor));
  }
}

void StoreOutput(const AttentionShape& shape, const AttentionTile& tile,
                 AttentionPart total, const Tensor& y) {
  const int64_t group = shape.group();
  for (int64_t i = 0; i < tile.rows * group; ++i) {
    const int64_t head = tile.kv_head * group + i % group;
    float* out =
        y.row<float>(tile.first_row + i / group) + head * shape.head_size;
    const F32x16 sum = Broadcast(total.sum[i]);
    for (int64_t d = 0; d < shape.head_size; d += kLanes)
      StorePart(out + d, Load(total.output + i * shape.padded() + d) / sum,
                shape.head_size - d);
  }
}

}  // namespace phalanx::PHALANX_ISA
