#include "tests/kernels/sequence_set.h"

#include <algorithm>
#include <limits>

#include "common/units.h"

namespace phalanx {

SequenceSet::SequenceSet(Rig& rig, const std::vector<SequenceSpec>& specs) {
  const int64_t S = specs.size();
  Ints first_row = {0}, past;
  int64_t widest = 1, needed = 0;
  for (const SequenceSpec& spec : specs) {
    rows += spec.length;
    first_row.push_back(static_cast<int32_t>(rows));
    past.push_back(static_cast<int32_t>(spec.past));
    const int64_t count = CeilDivide(spec.past + spec.length, kKvBlockTokens);
    widest = std::max(widest, count);
    needed += count;
  }
  // From the last slot and the last block down, every other block; the first
  // of both stays unused.
  slot_count = S + 1;
  block_count = 2 * needed + 1;
  int64_t next_block = block_count - 1;
  Ints table;
  for (int64_t s = 0; s < S; ++s) {
    slots.push_back(static_cast<int32_t>(S - s));
    std::vector<int32_t> mine;
    const int64_t count =
        CeilDivide(specs[s].past + specs[s].length, kKvBlockTokens);
    for (int64_t i = 0; i < count; ++i, next_block -= 2)
      mine.push_back(static_cast<int32_t>(next_block));
    blocks.push_back(mine);
    mine.resize(widest, 0);
    table.insert(table.end(), mine.begin(), mine.end());
  }
  sequences = {rig.I32({S + 1}, first_row), rig.I32({S}, past),
               rig.I32({S}, slots), rig.I32({S, widest}, table)};
}

PagedCache::PagedCache(int64_t block_count, int64_t Nk, int64_t D)
    : block_count(block_count),
      Nk(Nk),
      D(D),
      keys(block_count * Nk * kKvBlockTokens * D,
           std::numeric_limits<float>::quiet_NaN()),
      values(keys) {}

int64_t PagedCache::At(const std::vector<int32_t>& blocks, int64_t position,
                       int64_t head) const {
  const int64_t block = blocks[position / kKvBlockTokens];
  return ((block * Nk + head) * kKvBlockTokens + position % kKvBlockTokens) * D;
}

void PagedCache::Fill(const std::vector<int32_t>& blocks, int64_t count,
                      uint64_t seed) {
  for (int64_t position = 0; position < count; ++position) {
    for (int64_t h = 0; h < Nk; ++h) {
      const int64_t at = At(blocks, position, h);
      for (int64_t i = 0; i < D; ++i) {
        const int64_t index = (position * Nk + h) * D + i;
        keys[at + i] = NoiseAt(2 * seed, index);
        values[at + i] = NoiseAt(2 * seed + 1, index);
      }
    }
  }
}

}  // namespace phalanx
