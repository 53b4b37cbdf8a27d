#include "worker/checkpoint/shard.h"

#include <algorithm>

#include "common/check.h"
#include "common/units.h"

namespace phalanx {

Range ShardTp(int64_t size, int rank, int tp_size) {
  CHECK(rank >= 0 && rank < tp_size && size % tp_size == 0);
  const int64_t chunk = size / tp_size;
  return {rank * chunk, (rank + 1) * chunk};
}

std::vector<Range> ShardTpParts(std::span<const int64_t> parts, int rank,
                                int tp_size) {
  std::vector<Range> ranges;
  int64_t start = 0;
  for (int64_t part : parts) {
    const Range range = ShardTp(part, rank, tp_size);
    ranges.push_back({start + range.begin, start + range.end});
    start += part;
  }
  return ranges;
}

std::vector<Range> ShardTpPartsReplicate(std::span<const HeadPart> parts,
                                         int rank, int tp_size) {
  std::vector<Range> ranges;
  int64_t start = 0;
  for (const HeadPart& part : parts) {
    const Range heads = ShardKvHeads(part.heads, rank, tp_size);
    ranges.push_back({start + heads.begin * part.head_size,
                      start + heads.end * part.head_size});
    start += part.heads * part.head_size;
  }
  return ranges;
}

Range ShardKvHeads(int64_t heads, int rank, int tp_size) {
  if (heads >= tp_size) return ShardTp(heads, rank, tp_size);
  CHECK(rank >= 0 && rank < tp_size && heads > 0 && tp_size % heads == 0);
  const int64_t head = rank * heads / tp_size;
  return {head, head + 1};
}

Range ShardVocab(int64_t vocab, int rank, int tp_size) {
  CHECK(rank >= 0 && rank < tp_size);
  const int64_t rows = CeilDivide(vocab, tp_size);
  return {std::min(rank * rows, vocab), std::min((rank + 1) * rows, vocab)};
}

}  // namespace phalanx
