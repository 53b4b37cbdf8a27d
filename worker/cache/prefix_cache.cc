#include "worker/cache/prefix_cache.h"

#include <algorithm>

#include "common/check.h"
#include "common/units.h"

namespace phalanx {

PrefixCache::PrefixCache(const Limits& limits)
    : limits_(limits),
      blocks_(limits.kv_blocks),
      slots_(limits.state_slots),
      users_(limits.kv_blocks),
      is_snapshot_(limits.state_slots),
      index_(limits.block_tokens) {}

std::optional<std::vector<int32_t>> PrefixCache::AllocateBlocks(int64_t count) {
  CHECK(count >= 0);
  if (count > available_blocks()) return std::nullopt;
  // With nothing kept at all, all but the live ones are free: this ends.
  while (blocks_.free_count() < count) {
    const Order& order = idle_leaves_.empty() ? held_leaves_ : idle_leaves_;
    Forget(order.begin()->second);
  }
  std::optional<std::vector<int32_t>> blocks = blocks_.Allocate(count);
  for (const int32_t block : *blocks) Hold(block);
  return blocks;
}

void PrefixCache::ReleaseBlocks(std::span<const int32_t> blocks) {
  for (const int32_t block : blocks) {
    CHECK(blocks_.is_used(block) && users_[block].holds > 0);
    if (--users_[block].holds > 0) continue;
    --blocks_live_;
    if (users_[block].nodes.empty())
      blocks_.Free(std::span(&block, 1));
    else
      for (Node* node : users_[block].nodes) PlaceLeaf(node);
  }
}

std::optional<int32_t> PrefixCache::AllocateSlot() {
  if (slots_.free_count() == 0 && !snapshots_.empty())
    Forget(snapshots_.begin()->second);
  return slots_.Allocate();
}

void PrefixCache::ReleaseSlot(int32_t slot) {
  CHECK(slots_.is_used(slot) && !is_snapshot_[slot]);
  slots_.Free(slot);
}

int64_t PrefixCache::Longest(absl::string_view salt,
                             std::span<const int32_t> tokens,
                             int64_t most) const {
  const int64_t size = static_cast<int64_t>(tokens.size());
  const Node* node =
      index_.Longest(salt, tokens.first(std::clamp<int64_t>(most, 0, size)));
  return node == nullptr ? 0 : node->end;
}

PrefixCache::Prefix PrefixCache::Take(absl::string_view salt,
                                      std::span<const int32_t> tokens,
                                      int64_t most) {
  const int64_t size = static_cast<int64_t>(tokens.size());
  Node* node =
      index_.Longest(salt, tokens.first(std::clamp<int64_t>(most, 0, size)));
  if (node == nullptr) return {};
  Use(node);
  Prefix prefix;
  prefix.tokens = node->end;
  prefix.slot = node->slot;
  if (node->end % limits_.block_tokens != 0) {
    prefix.tail_block = node->block;
    node = node->parent;
  }
  for (; node->parent != nullptr; node = node->parent)
    prefix.blocks.push_back(node->block);
  std::ranges::reverse(prefix.blocks);
  for (const int32_t block : prefix.blocks) Hold(block);
  return prefix;
}

PrefixCache::SnapshotId PrefixCache::Insert(absl::string_view salt,
                                            std::span<const int32_t> tokens,
                                            std::span<const int32_t> blocks,
                                            int32_t slot) {
  CHECK(slots_.is_used(slot) && !is_snapshot_[slot]);
  CHECK(static_cast<int64_t>(blocks.size()) ==
        CeilDivide(static_cast<int64_t>(tokens.size()), limits_.block_tokens));
  for (const int32_t block : blocks)
    CHECK(blocks_.is_used(block) && users_[block].holds > 0);
  std::vector<Node*> added;
  Node* node = index_.Extend(salt, tokens, blocks, added);
  for (Node* fresh : added) users_[fresh->block].nodes.push_back(fresh);
  if (node->has_snapshot()) {
    slots_.Free(slot);
  } else {
    node->slot = slot;
    is_snapshot_[slot] = true;
    node->snapshot = ++last_id_;
    by_id_[node->snapshot] = node;
  }
  Use(node);
  if (!added.empty()) PlaceLeaf(added.front()->parent);  // No leaf any more.
  return node->snapshot;
}

void PrefixCache::Drop(SnapshotId snapshot) {
  const auto it = by_id_.find(snapshot);
  if (it != by_id_.end()) Forget(it->second);
}

void PrefixCache::Flush() {
  while (!snapshots_.empty()) Forget(snapshots_.begin()->second);
}

PrefixCache::Counts PrefixCache::counts() const {
  return {.blocks_live = blocks_live_,
          .blocks_reusable = blocks_.used_count() - blocks_live_,
          .blocks_free = blocks_.free_count(),
          .slots_live = slots_.used_count() - snapshots_kept(),
          .slots_snapshot = snapshots_kept(),
          .slots_free = slots_.free_count()};
}

void PrefixCache::Hold(int32_t block) {
  if (users_[block].holds++ > 0) return;
  ++blocks_live_;
  for (Node* node : users_[block].nodes) PlaceLeaf(node);
}

// Makes a node's snapshot the most recently used.
void PrefixCache::Use(Node* node) {
  for (Order* order : {&snapshots_, &idle_leaves_, &held_leaves_})
    order->erase(node->last_use);
  node->last_use = ++uses_;
  snapshots_.emplace(node->last_use, node);
  PlaceLeaf(node);
}

// Puts the node into the order of leaves where it belongs, if into any, after a
// change of its children or of the holds of its block. Every leaf has a
// snapshot.
void PrefixCache::PlaceLeaf(Node* node) {
  if (!node->has_snapshot()) return;
  idle_leaves_.erase(node->last_use);
  held_leaves_.erase(node->last_use);
  if (node->children > 0) return;
  Order& order = users_[node->block].holds > 0 ? held_leaves_ : idle_leaves_;
  order.emplace(node->last_use, node);
}

// Gives up a node's snapshot, and what is of no use without it.
void PrefixCache::Forget(Node* node) {
  for (Order* order : {&snapshots_, &idle_leaves_, &held_leaves_})
    order->erase(node->last_use);
  by_id_.erase(node->snapshot);
  slots_.Free(node->slot);
  is_snapshot_[node->slot] = false;
  node->slot = -1;
  Prune(node);
}

// Removes the node and those above it as long as they serve no snapshot.
void PrefixCache::Prune(Node* node) {
  while (node != nullptr && node->children == 0 && !node->has_snapshot()) {
    Node* parent = node->parent;
    if (parent != nullptr) {
      Block& users = users_[node->block];
      std::erase(users.nodes, node);
      if (users.nodes.empty() && users.holds == 0)
        blocks_.Free(std::span(&node->block, 1));
    }
    index_.Remove(node);
    node = parent;
  }
  if (node != nullptr) PlaceLeaf(node);
}

}  // namespace phalanx
