#include "kernels/cpu/attention_tile.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/vec.h"

namespace phalanx::PHALANX_ISA {
namespace {

constexpr int64_t kBlocksPerSegment = kAttentionSegmentTokens / kKvBlockTokens;

int64_t Aligned(int64_t floats) {
  return (floats + kLanes - 1) / kLanes * kLanes;
}

}  // namespace

int64_t AttentionRoom::Floats(int64_t queries, int64_t padded) {
  return queries * (padded + kAttentionSegmentTokens + kLanes) +
         kAttentionSegmentTokens * kDimStep / 2 +
         Aligned(queries * (kBlocksPerSegment + 2));
}

AttentionRoom AttentionRoom::In(float* memory, int64_t queries,
                                int64_t padded) {
  AttentionRoom room;
  room.queries = memory;
  room.scores = room.queries + queries * padded;
  room.sums = room.scores + queries * kAttentionSegmentTokens;
  float* values = room.sums + queries * kLanes;
  room.values = reinterpret_cast<uint16_t*>(values);
  room.seen = reinterpret_cast<int64_t*>(values + kAttentionSegmentTokens *
                                                      kDimStep / 2);
  room.correction = reinterpret_cast<float*>(room.seen + queries);
  return room;
}

int64_t FirstQueryAt(const AttentionShape& shape, const AttentionTile& tile,
                     int64_t position) {
  return std::max<int64_t>(position - tile.first_position, 0) * shape.group();
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
