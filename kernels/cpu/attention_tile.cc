#include "kernels/cpu/attention_tile.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/vec.h"

namespace phalanx::PHALANX_ISA {
namespace {

constexpr int64_t kBlock = kKvBlockTokens;
constexpr int64_t kBlocksPerSegment = kAttentionSegmentTokens / kBlock;

// One block of keys or values and the queries that see any of it.
struct BlockView {
  const uint16_t* data;  // [64, D]
  int64_t start;         // Position of its first token.
  int64_t present;       // Tokens that the tile's last row sees.
  int64_t first_query;   // Queries before it see none.
};

// How many of the block's tokens query i sees, 1 .. 64.
int64_t Seen(const AttentionShape& shape, const AttentionTile& tile,
             int64_t start, int64_t i) {
  const int64_t position = tile.first_position + i / shape.group();
  return std::min(position - start + 1, kBlock);
}

// The first query at or after `position`.
int64_t FirstQueryAt(const AttentionShape& shape, const AttentionTile& tile,
                     int64_t position) {
  return std::max<int64_t>(position - tile.first_position, 0) * shape.group();
}

// Keys first .. first + 15 of the block as [padded / 16, 16 keys, 16], absent
// ones zeros.
void WidenKeys(const AttentionShape& shape, const BlockView& block,
               int64_t first, float* out) {
  for (int64_t j = 0; j < kLanes; ++j) {
    const uint16_t* key = block.data + (first + j) * shape.head_size;
    const bool present = first + j < block.present;
    for (int64_t d = 0; d < shape.padded(); d += kLanes) {
      const int64_t n = present ? std::max<int64_t>(shape.head_size - d, 0) : 0;
      Store(out + (d + j) * kLanes, n > 0 ? LoadPart(key + d, n) : Zero());
    }
  }
}

// Sixteen products of a query with keys that WidenKeys laid out.
F32x16 ScoreKeys(const float* query, const float* keys, int64_t padded) {
  F32x16 sums[kLanes];
  for (int j = 0; j < kLanes; ++j) sums[j] = Zero();
  for (int64_t d = 0; d < padded; d += kLanes) {
    const F32x16 part = Load(query + d);
#pragma GCC unroll 16
    for (int j = 0; j < kLanes; ++j)
      sums[j] = Fma(part, Load(keys + (d + j) * kLanes), sums[j]);
  }
  return HorizontalSums(sums);
}

void ScoreBlock(const AttentionShape& shape, const BlockView& block,
                int64_t queries, const AttentionRoom& room) {
  const int64_t padded = shape.padded();
  const F32x16 scale = Broadcast(shape.scale);
  for (int64_t first = 0; first < block.present; first += kLanes) {
    WidenKeys(shape, block, first, room.keys);
    for (int64_t i = block.first_query; i < queries; ++i) {
      const F32x16 scores =
          ScoreKeys(room.queries + i * padded, room.keys, padded);
      Store(room.scores + i * kBlock + first, scores * scale);
    }
  }
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

// Values of the block, dimensions d .. d + 31, as [present, 32].
void WidenValues(const AttentionShape& shape, const BlockView& block, int64_t d,
                 float* out) {
  const int64_t low = shape.head_size - d;
  const int64_t high = std::max<int64_t>(low - kLanes, 0);
  for (int64_t j = 0; j < block.present; ++j) {
    const uint16_t* value = block.data + j * shape.head_size + d;
    Store(out + j * kDimStep, LoadPart(value, low));
    Store(out + j * kDimStep + kLanes,
          high > 0 ? LoadPart(value + kLanes, high) : Zero());
  }
}

// output <- output * correction + probabilities * values for kCount queries,
// two vectors of dimensions each: one chain per element in order of position.
// Queries see different numbers of positions; each stops at its own.
template <int kCount>
void AddValues(const float* values, const float* probabilities,
               const float* correction, const int64_t* seen, int64_t padded,
               float* output) {
  F32x16 low[kCount];
  F32x16 high[kCount];
  for (int i = 0; i < kCount; ++i) {
    const F32x16 factor = Broadcast(correction[i]);
    low[i] = Load(output + i * padded) * factor;
    high[i] = Load(output + i * padded + kLanes) * factor;
  }
  // Positions ascend with the queries, so the first sees the fewest.
  for (int64_t j = 0; j < seen[0]; ++j) {
    const F32x16 v_low = Load(values + j * kDimStep);
    const F32x16 v_high = Load(values + j * kDimStep + kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) {
      const F32x16 p = Broadcast(probabilities[i * kBlock + j]);
      low[i] = Fma(p, v_low, low[i]);
      high[i] = Fma(p, v_high, high[i]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kCount; ++i) {
    for (int64_t j = seen[0]; j < seen[i]; ++j) {
      const F32x16 p = Broadcast(probabilities[i * kBlock + j]);
      low[i] = Fma(p, Load(values + j * kDimStep), low[i]);
      high[i] = Fma(p, Load(values + j * kDimStep + kLanes), high[i]);
    }
    Store(output + i * padded, low[i]);
    Store(output + i * padded + kLanes, high[i]);
  }
}

void AddBlockValues(const AttentionShape& shape, const AttentionTile& tile,
                    const BlockView& block, int64_t queries,
                    const AttentionRoom& room, float* output) {
  constexpr int64_t kTogether = 8;
  const int64_t padded = shape.padded();
  for (int64_t d = 0; d < padded; d += kDimStep) {
    WidenValues(shape, block, d, room.values);
    for (int64_t i = block.first_query; i < queries;) {
      int64_t seen[kTogether];
      const int64_t left = std::min(queries - i, kTogether);
      for (int64_t n = 0; n < left; ++n)
        seen[n] = Seen(shape, tile, block.start, i + n);
      const auto add = [&]<int kCount>() {
        AddValues<kCount>(room.values, room.scores + i * kBlock,
                          room.correction + i, seen, padded,
                          output + i * padded + d);
        i += kCount;
      };
      if (left == kTogether)
        add.template operator()<kTogether>();
      else if (left >= 4)
        add.template operator()<4>();
      else if (left >= 2)
        add.template operator()<2>();
      else
        add.template operator()<1>();
    }
  }
}

int64_t Aligned(int64_t floats) {
  return (floats + kLanes - 1) / kLanes * kLanes;
}

}  // namespace

int64_t AttentionRoom::Floats(int64_t queries, int64_t padded) {
  return queries * (padded + kBlock + kLanes) + Aligned(queries) +
         kLanes * padded + kBlock * kDimStep;
}

AttentionRoom AttentionRoom::In(float* memory, int64_t queries,
                                int64_t padded) {
  AttentionRoom room;
  room.queries = memory;
  room.scores = room.queries + queries * padded;
  room.sums = room.scores + queries * kBlock;
  room.correction = room.sums + queries * kLanes;
  room.keys = room.correction + Aligned(queries);
  room.values = room.keys + kLanes * padded;
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
  for (int64_t b = 0; b < kBlocksPerSegment; ++b) {
    const int64_t index = segment * kBlocksPerSegment + b;
    const int64_t start = index * kBlock;
    if (start > tile.last_position()) break;
    BlockView block;
    block.data = keys.row<uint16_t>(table[index]) + head_offset;
    block.start = start;
    block.present = std::min(tile.last_position() - start + 1, kBlock);
    block.first_query = FirstQueryAt(shape, tile, start);
    ScoreBlock(shape, block, queries, room);
    for (int64_t i = block.first_query; i < queries; ++i)
      room.correction[i] =
          UpdateSoftmax(room.scores + i * kBlock, Seen(shape, tile, start, i),
                        part.max + i, room.sums + i * kLanes);
    block.data = values.row<uint16_t>(table[index]) + head_offset;
    AddBlockValues(shape, tile, block, queries, room, part.output);
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
