#include "worker/scheduler/cache_account.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "common/check.h"
#include "common/units.h"

namespace phalanx {
namespace {

int64_t Held(const Sequence& sequence) {
  return static_cast<int64_t>(sequence.blocks.size());
}

int64_t PromisedTo(const Sequence& sequence) {
  return std::max<int64_t>(0, sequence.reserved_blocks - Held(sequence));
}

}  // namespace

CacheAccount::CacheAccount(const SchedulerLimits& limits)
    : block_tokens_(limits.block_tokens),
      cache_({.kv_blocks = limits.kv_blocks,
              .state_slots = limits.state_slots,
              .block_tokens = limits.block_tokens}) {}

bool CacheAccount::Admit(Sequence& sequence, int64_t tokens, StepPlan& plan) {
  PrefixCache::Prefix prefix;
  if (sequence.longest_hit() > 0)
    prefix = cache_.Take(sequence.request.cache.salt, sequence.tokens,
                         sequence.longest_hit());
  // After Take, since what it found can no longer be given up.
  const int64_t reserved = CeilDivide(tokens, block_tokens_);
  const int64_t to_come = reserved - static_cast<int64_t>(prefix.blocks.size());
  if (to_come > slack()) {
    cache_.ReleaseBlocks(prefix.blocks);
    return false;
  }
  const std::optional<int32_t> slot = cache_.AllocateSlot();
  CHECK(slot.has_value());
  sequence.state_slot = *slot;
  sequence.blocks = std::move(prefix.blocks);
  sequence.reserved_blocks = reserved;
  promised_ += to_come;
  CHECK(slack() >= 0);
  sequence.past = prefix.tokens;
  if (prefix.tokens == 0) return true;
  CHECK(Extend(sequence, prefix.tokens));
  // What is copied may have become the sequence's own just now.
  if (prefix.tail_block >= 0 && prefix.tail_block != sequence.blocks.back())
    plan.block_copies.push_back(
        {.from = prefix.tail_block, .to = sequence.blocks.back()});
  if (prefix.slot != *slot)
    plan.state_restores.push_back({.from = prefix.slot, .to = *slot});
  return true;
}

bool CacheAccount::Extend(Sequence& sequence, int64_t tokens) {
  const int64_t missing = CeilDivide(tokens, block_tokens_) - Held(sequence);
  if (missing <= 0) return true;
  const int64_t promised = std::min(missing, PromisedTo(sequence));
  if (missing - promised > slack()) return false;
  const auto blocks = cache_.AllocateBlocks(missing);
  CHECK(blocks.has_value());
  sequence.blocks.insert(sequence.blocks.end(), blocks->begin(), blocks->end());
  promised_ -= promised;
  CHECK(slack() >= 0);
  return true;
}

void CacheAccount::Release(Sequence& sequence) {
  CHECK(sequence.running());
  Discard(sequence);
  promised_ -= PromisedTo(sequence);
  cache_.ReleaseBlocks(sequence.blocks);
  cache_.ReleaseSlot(sequence.state_slot);
  sequence.blocks.clear();
  sequence.reserved_blocks = 0;
  sequence.state_slot = -1;
  sequence.past = 0;
  sequence.decoding = false;
}

int64_t CacheAccount::Share(const Sequence& sequence) {
  return std::max(sequence.reserved_blocks, Held(sequence));
}

void CacheAccount::Save(Sequence& sequence, int64_t tokens, StepPlan& plan) {
  // What is kept already needs no slot; another may have computed it, too.
  if (cache_.Longest(sequence.request.cache.salt, sequence.tokens, tokens) ==
      tokens)
    return;
  const std::optional<int32_t> slot = cache_.ReserveSnapshot();
  if (!slot.has_value()) return;
  sequence.save_slot = *slot;
  plan.state_saves.push_back({.from = sequence.state_slot, .to = *slot});
}

void CacheAccount::Keep(Sequence& sequence) {
  if (sequence.save_slot < 0) return;
  const std::span<const int32_t> tokens = sequence.tokens;
  const std::span<const int32_t> blocks = sequence.blocks;
  sequence.snapshots.push_back(
      cache_.Insert(sequence.request.cache.salt, tokens.first(sequence.past),
                    blocks.first(CeilDivide(sequence.past, block_tokens_)),
                    std::exchange(sequence.save_slot, -1)));
  ++inserts_;
}

void CacheAccount::Discard(Sequence& sequence) {
  if (sequence.save_slot < 0) return;
  cache_.ReleaseSlot(std::exchange(sequence.save_slot, -1));
}

void CacheAccount::DropSnapshots(Sequence& sequence) {
  for (const PrefixCache::SnapshotId snapshot : sequence.snapshots)
    cache_.Drop(snapshot);
  sequence.snapshots.clear();
}

int64_t CacheAccount::Longest(const Sequence& sequence) const {
  return cache_.Longest(sequence.request.cache.salt, sequence.tokens,
                        sequence.longest_hit());
}

}  // namespace phalanx
