#ifndef PHALANX_TESTS_KERNELS_SEQUENCE_SET_H_
#define PHALANX_TESTS_KERNELS_SEQUENCE_SET_H_

// Sequences of a step, laid out as an engine might: slots and KV blocks out of
// order, with unused ones between.

#include <cstdint>
#include <vector>

#include "kernels/sequences.h"
#include "tests/kernels/rig.h"

namespace phalanx {

struct SequenceSpec {
  int64_t length = 0;  // Rows in this step.
  int64_t past = 0;
};

struct SequenceSet {
  SequenceSet(Rig& rig, const std::vector<SequenceSpec>& specs);

  Sequences sequences;
  int64_t rows = 0;
  std::vector<int32_t> slots;  // Of each sequence.
  int64_t slot_count = 0;
  std::vector<std::vector<int32_t>> blocks;  // Of each, in order of position.
  int64_t block_count = 0;
};

// A cache of keys and values on the host; NaN where nothing was stored.
struct PagedCache {
  PagedCache(int64_t block_count, int64_t Nk, int64_t D);

  Dims dims() const { return {block_count, Nk, kKvBlockTokens, D}; }

  // The first `count` positions of a sequence, as `seed` has them.
  void Fill(const std::vector<int32_t>& blocks, int64_t count, uint64_t seed);
  // Index of the first element of one head at one position.
  int64_t At(const std::vector<int32_t>& blocks, int64_t position,
             int64_t head) const;

  int64_t block_count, Nk, D;
  Floats keys, values;
};

}  // namespace phalanx

#endif  // PHALANX_TESTS_KERNELS_SEQUENCE_SET_H_
