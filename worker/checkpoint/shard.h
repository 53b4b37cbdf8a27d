#ifndef PHALANX_WORKER_CHECKPOINT_SHARD_H_
#define PHALANX_WORKER_CHECKPOINT_SHARD_H_

// Which piece of a dimension a rank holds: pure functions of sizes, the ground
// of model_spec.md 4. Sizes must divide as MakeLocalShape demands; a CHECK
// fails otherwise. rank is 0..tp_size-1.

#include <cstdint>
#include <span>
#include <vector>

namespace phalanx {

// [begin, end).
struct Range {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

// The plain chunk: tp_size equal pieces, in the order of ranks.
Range ShardTp(int64_t size, int rank, int tp_size);

// A fused dimension p0|p1|...: each part is cut on its own, so that a rank
// holds its chunk of every part. A plain chunk of the whole would have a valid
// shape and the wrong rows.
std::vector<Range> ShardTpParts(std::span<const int64_t> parts, int rank,
                                int tp_size);

// One part of a fused dimension that is made of heads.
struct HeadPart {
  int64_t heads = 0;
  int64_t head_size = 0;  // Of the fused dimension, for each head.
};

// As ShardTpParts, by heads; a part with fewer heads than there are ranks is
// replicated: rank r holds the one head floor(r * heads / tp_size).
std::vector<Range> ShardTpPartsReplicate(std::span<const HeadPart> parts,
                                         int rank, int tp_size);

// The KV heads that a rank's query heads read: ShardTpPartsReplicate's rule.
Range ShardKvHeads(int64_t heads, int rank, int tp_size);

// The rows of a vocabulary that need not divide: ranks own ceil(vocab /
// tp_size) rows each. These are the ones that exist; the rest of a rank's rows
// is padding, which may be all of them.
Range ShardVocab(int64_t vocab, int rank, int tp_size);

}  // namespace phalanx

#endif  // PHALANX_WORKER_CHECKPOINT_SHARD_H_
