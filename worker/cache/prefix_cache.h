#ifndef PHALANX_WORKER_CACHE_PREFIX_CACHE_H_
#define PHALANX_WORKER_CACHE_PREFIX_CACHE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "absl/strings/string_view.h"
#include "worker/cache/block_pool.h"
#include "worker/cache/radix_index.h"
#include "worker/cache/slot_pool.h"

namespace phalanx {

// Which KV blocks and state slots are whose: those that live sequences hold,
// and those that are kept because a later request may begin with the same
// tokens. Bookkeeping only, on rank 0: memory is moved by the step plan's
// copies. One thread; a pure state machine.
//
// A prefix of n tokens can be used again if the index has its KV blocks and a
// snapshot of the GDN state at exactly n (model_spec.md 7). The index is a
// radix tree of whole blocks; a hash finds a child, its tokens are compared. A
// snapshot at a position that is no multiple of the block sits under the node
// of the last whole block, with its remaining tokens and the block that holds
// their rows. The index adds a hold to the blocks of whoever computed them; a
// holder that goes on writes behind the snapshot's rows only, so nothing is
// copied when a snapshot is made. Whoever uses one copies the state and that
// last block.
//
// What is kept is given up when a sequence needs room: the least recently used
// snapshot for a slot, the least recently used leaf for a block, each with all
// that is of no use without it: KV at whose end and below which there is no
// snapshot. Two orders, since either pool may run out first. A leaf whose block
// a sequence holds goes last, since that frees no block of its own.
class PrefixCache {
 public:
  struct Limits {
    int64_t kv_blocks = 0;
    int64_t state_slots = 0;
    int64_t block_tokens = 64;
  };
  struct Counts {
    int64_t blocks_live = 0;      // Held by sequences.
    int64_t blocks_reusable = 0;  // Held by the index alone.
    int64_t blocks_free = 0;
    int64_t slots_live = 0;
    int64_t slots_snapshot = 0;
    int64_t slots_free = 0;
  };
  using SnapshotId = int64_t;

  // Everything is free. Limits are >= 0, block_tokens >= 1.
  explicit PrefixCache(const Limits& limits);

  // --- What live sequences hold

  // `count` (>= 0) blocks, ascending, held once each; gives up what is kept as
  // far as needed. Nothing, and nothing given up, if count is above
  // available_blocks().
  std::optional<std::vector<int32_t>> AllocateBlocks(int64_t count);
  // Takes one hold from each; of what nobody holds any more, the index keeps
  // what it has and the rest is free. Without a hold: a bug.
  void ReleaseBlocks(std::span<const int32_t> blocks);
  // A slot; gives up a snapshot if none is free. Nothing if all are live.
  std::optional<int32_t> AllocateSlot();
  void ReleaseSlot(int32_t slot);
  // Free or given up for the asking: just what Allocate can get.
  int64_t available_blocks() const { return limits_.kv_blocks - blocks_live_; }
  int64_t available_slots() const {
    return limits_.state_slots - slots_.used_count() + snapshots_kept();
  }

  // --- What is kept

  // Tokens of the longest prefix that Take would find. Changes nothing.
  int64_t Longest(absl::string_view salt, std::span<const int32_t> tokens,
                  int64_t most) const;

  struct Prefix {
    int64_t tokens = 0;           // 0: none; the rest is unset.
    std::vector<int32_t> blocks;  // The whole ones, held once for the caller.
    int32_t tail_block = -1;      // Holds the last tokens % block_tokens rows.
    int32_t slot = -1;            // The snapshot.
  };
  // The longest one of at most `most` tokens that `tokens` begin with, among
  // requests of this salt. It becomes the most recently used. The caller puts
  // the copies of tail_block and slot into the plan that it is making before it
  // allocates anything: neither is held, but copies run before all rows and in
  // the order in which they are listed.
  Prefix Take(absl::string_view salt, std::span<const int32_t> tokens,
              int64_t most);

  // A slot for a snapshot that the plan in the making saves; Insert or
  // ReleaseSlot follows. It is live until then. Nothing if only live ones are
  // left.
  std::optional<int32_t> ReserveSnapshot() { return AllocateSlot(); }

  // The step that saved the state after `tokens` into `slot` is done: keeps it,
  // with `blocks`, the caller's, which hold the KV rows of these tokens
  // (ceil(tokens / block_tokens) of them, in order; at least one). If this very
  // prefix is kept already, frees the slot. Either way it becomes the most
  // recently used. Returns what names the snapshot.
  SnapshotId Insert(absl::string_view salt, std::span<const int32_t> tokens,
                    std::span<const int32_t> blocks, int32_t slot);

  // Forgets a snapshot, and what is of no use without it. Nothing if it is gone
  // already.
  void Drop(SnapshotId snapshot);
  // Forgets all that is kept.
  void Flush();

  // Blocks, and slots, add up to their limits.
  Counts counts() const;

 private:
  using Node = RadixIndex::Node;
  // Snapshots by their last use, the oldest first.
  using Order = std::map<int64_t, Node*>;
  struct Block {
    int32_t holds = 0;         // Of sequences.
    std::vector<Node*> nodes;  // That keep it.
  };

  int64_t snapshots_kept() const {
    return static_cast<int64_t>(snapshots_.size());
  }
  void Hold(int32_t block);
  void Use(Node* node);
  void PlaceLeaf(Node* node);
  void Forget(Node* node);
  void Prune(Node* node);

  const Limits limits_;
  BlockPool blocks_;               // Used: held or kept.
  SlotPool slots_;                 // Used: live or a snapshot's.
  std::vector<Block> users_;       // Block -> who uses it.
  std::vector<bool> is_snapshot_;  // Slot ->.
  int64_t blocks_live_ = 0;        // With a hold.
  RadixIndex index_;
  std::unordered_map<SnapshotId, Node*> by_id_;
  Order snapshots_;    // All.
  Order idle_leaves_;  // Those with nothing below, whose block nobody holds.
  Order held_leaves_;  // Those whose block is held.
  int64_t uses_ = 0;
  SnapshotId last_id_ = 0;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_CACHE_PREFIX_CACHE_H_
