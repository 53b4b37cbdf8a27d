// The prefix cache under 100,000 random calls, beside a plain twin
// that keeps a list of snapshots and finds everything by looking at all of
// them. After each call these hold:
//
//   1. What the cache answers is what the twin answers: the very blocks, slots
//      and lengths.
//   2. The counts are the twin's, and add up to the limits.
//   3. What Allocate can get is just what is available.
//
// PHALANX_TEST_SEED picks another world; a failure prints the seed.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/units.h"
#include "worker/cache/prefix_cache.h"

namespace phalanx {
namespace {

constexpr int kWorlds = 10;
constexpr int kStepsPerWorld = 10000;

using Tokens = std::vector<int32_t>;

uint64_t BaseSeed() {
  const char* text = std::getenv("PHALANX_TEST_SEED");
  return text == nullptr ? 20261130 : std::strtoull(text, nullptr, 10);
}

bool Begins(const Tokens& prefix, const Tokens& tokens) {
  return prefix.size() <= tokens.size() &&
         std::equal(prefix.begin(), prefix.end(), tokens.begin());
}

class Twin {
 public:
  explicit Twin(const PrefixCache::Limits& limits) : limits_(limits) {}

  std::optional<std::vector<int32_t>> AllocateBlocks(int64_t count) {
    if (count > limits_.kv_blocks - static_cast<int64_t>(holds_.size()))
      return std::nullopt;
    std::set<int32_t> free = FreeBlocks();
    while (static_cast<int64_t>(free.size()) < count) {
      Forget(OldestLeaf());
      free = FreeBlocks();
    }
    std::vector<int32_t> blocks(free.begin(), std::next(free.begin(), count));
    for (const int32_t block : blocks) ++holds_[block];
    return blocks;
  }

  void ReleaseBlocks(const std::vector<int32_t>& blocks) {
    for (const int32_t block : blocks)
      if (--holds_[block] == 0) holds_.erase(block);
  }

  std::optional<int32_t> AllocateSlot() {
    if (FreeSlots().empty() && !snapshots_.empty()) Forget(Oldest(snapshots_));
    const std::set<int32_t> free = FreeSlots();
    if (free.empty()) return std::nullopt;
    live_slots_.insert(*free.begin());
    return *free.begin();
  }

  void ReleaseSlot(int32_t slot) { live_slots_.erase(slot); }

  PrefixCache::Prefix Take(const std::string& salt, const Tokens& tokens,
                           int64_t most) {
    Snapshot* best = nullptr;
    for (auto& [id, snapshot] : snapshots_)
      if (snapshot.salt == salt && Size(snapshot) <= most &&
          Begins(snapshot.tokens, tokens) &&
          (best == nullptr || Size(snapshot) > Size(*best)))
        best = &snapshot;
    PrefixCache::Prefix prefix;
    if (best == nullptr) return prefix;
    best->last_use = ++uses_;
    prefix.tokens = Size(*best);
    prefix.slot = best->slot;
    for (const Tokens& whole : WholePrefixes(*best))
      prefix.blocks.push_back(whole_.at({salt, whole}));
    for (const int32_t block : prefix.blocks) ++holds_[block];
    if (HasTail(*best)) prefix.tail_block = best->tail_block;
    return prefix;
  }

  void Insert(const std::string& salt, const Tokens& tokens,
              const std::vector<int32_t>& blocks, int32_t slot, int64_t id) {
    live_slots_.erase(slot);
    for (auto& [old, snapshot] : snapshots_) {
      if (snapshot.salt != salt || snapshot.tokens != tokens) continue;
      EXPECT_EQ(id, old);
      snapshot.last_use = ++uses_;
      return;
    }
    Snapshot& snapshot = snapshots_[id];
    snapshot = {salt, tokens, blocks.back(), slot, ++uses_};
    size_t i = 0;
    for (const Tokens& whole : WholePrefixes(snapshot))
      whole_.try_emplace({salt, whole}, blocks[i++]);
  }

  void Drop(int64_t id) {
    if (snapshots_.contains(id)) Forget(id);
  }

  void Flush() {
    snapshots_.clear();
    whole_.clear();
  }

  PrefixCache::Counts Counts() const {
    const int64_t live = static_cast<int64_t>(holds_.size());
    const int64_t free = static_cast<int64_t>(FreeBlocks().size());
    return {.blocks_live = live,
            .blocks_reusable = limits_.kv_blocks - live - free,
            .blocks_free = free,
            .slots_live = static_cast<int64_t>(live_slots_.size()),
            .slots_snapshot = static_cast<int64_t>(snapshots_.size()),
            .slots_free = static_cast<int64_t>(FreeSlots().size())};
  }

  int64_t forgotten() const { return forgotten_; }

 private:
  struct Snapshot {
    std::string salt;
    Tokens tokens;
    int32_t tail_block = -1;  // The last one, whole or not.
    int32_t slot = -1;
    int64_t last_use = 0;
  };
  using Snapshots = std::map<int64_t, Snapshot>;  // By name.

  static int64_t Size(const Snapshot& snapshot) {
    return static_cast<int64_t>(snapshot.tokens.size());
  }
  bool HasTail(const Snapshot& snapshot) const {
    return Size(snapshot) % limits_.block_tokens != 0;
  }
  std::vector<Tokens> WholePrefixes(const Snapshot& snapshot) const {
    std::vector<Tokens> prefixes;
    for (int64_t n = limits_.block_tokens; n <= Size(snapshot);
         n += limits_.block_tokens)
      prefixes.emplace_back(snapshot.tokens.begin(),
                            snapshot.tokens.begin() + n);
    return prefixes;
  }
  int32_t LastBlock(const Snapshot& snapshot) const {
    return HasTail(snapshot) ? snapshot.tail_block
                             : whole_.at({snapshot.salt, snapshot.tokens});
  }

  std::set<int32_t> FreeBlocks() const {
    std::set<int32_t> free;
    for (int64_t block = 0; block < limits_.kv_blocks; ++block)
      free.insert(static_cast<int32_t>(block));
    for (const auto& [block, holds] : holds_) free.erase(block);
    for (const auto& [whole, block] : whole_) free.erase(block);
    for (const auto& [id, snapshot] : snapshots_)
      free.erase(LastBlock(snapshot));
    return free;
  }
  std::set<int32_t> FreeSlots() const {
    std::set<int32_t> free;
    for (int64_t slot = 0; slot < limits_.state_slots; ++slot)
      free.insert(static_cast<int32_t>(slot));
    for (const int32_t slot : live_slots_) free.erase(slot);
    for (const auto& [id, snapshot] : snapshots_) free.erase(snapshot.slot);
    return free;
  }

  static int64_t Oldest(const Snapshots& snapshots) {
    return std::ranges::min_element(
               snapshots, {},
               [](const auto& entry) { return entry.second.last_use; })
        ->first;
  }
  int64_t OldestLeaf() const {
    Snapshots idle, held;
    for (const auto& [id, snapshot] : snapshots_) {
      const bool inner =
          !HasTail(snapshot) &&
          std::ranges::any_of(snapshots_, [&](const auto& other) {
            return other.first != id && other.second.salt == snapshot.salt &&
                   Begins(snapshot.tokens, other.second.tokens);
          });
      if (inner) continue;
      (holds_.contains(LastBlock(snapshot)) ? held : idle)[id] = snapshot;
    }
    return Oldest(idle.empty() ? held : idle);
  }

  void Forget(int64_t id) {
    ++forgotten_;
    snapshots_.erase(id);
    std::erase_if(whole_, [this](const auto& whole) {
      const auto& [salt, tokens] = whole.first;
      return std::ranges::none_of(snapshots_, [&](const auto& entry) {
        return entry.second.salt == salt && Begins(tokens, entry.second.tokens);
      });
    });
  }

  const PrefixCache::Limits limits_;
  std::map<int32_t, int64_t> holds_;  // Block -> how many; none with 0.
  std::set<int32_t> live_slots_;
  Snapshots snapshots_;
  // Whole blocks of tokens from the beginning -> the block kept for the last.
  std::map<std::pair<std::string, Tokens>, int32_t> whole_;
  int64_t uses_ = 0;
  int64_t forgotten_ = 0;
};

// A live sequence, as a scheduler has them.
struct Sequence {
  std::string salt;
  Tokens tokens;  // Of those whose rows are in the blocks.
  std::vector<int32_t> blocks;
};

class World {
 public:
  explicit World(uint64_t seed)
      : random_(seed),
        limits_({.kv_blocks = Draw(1, 40),
                 .state_slots = Draw(1, 14),
                 .block_tokens = Draw(1, 5)}),
        cache_(limits_),
        twin_(limits_) {}

  void Run() {
    for (int step = 0; step < kStepsPerWorld; ++step) {
      ASSERT_NO_FATAL_FAILURE(Step());
      ASSERT_NO_FATAL_FAILURE(CheckCounts());
    }
    EXPECT_GT(twin_.forgotten(), 0);
  }

 private:
  int64_t Draw(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  bool Chance(int64_t one_in) { return Draw(1, one_in) == 1; }

  void Step() {
    const int64_t what = Draw(0, 99);
    if (what < 25) return Begin();
    if (what < 55) return Keep();
    if (what < 75) return Grow();
    if (what < 95) return End();
    if (what < 98) return Drop();
    if (what < 99) return HoldASlot();
    if (Chance(20)) Flush();
  }

  // A request comes: takes what is kept of it, and blocks for the rest.
  void Begin() {
    Sequence sequence;
    sequence.salt = Chance(4) ? "b" : "a";
    const int64_t length = Draw(1, limits_.block_tokens * 6);
    for (int64_t i = 0; i < length; ++i)
      sequence.tokens.push_back(Chance(6) ? 1 : 0);
    const int64_t most = Chance(5) ? Draw(0, length) : length - 1;
    const int64_t longest =
        cache_.Longest(sequence.salt, sequence.tokens, most);
    const PrefixCache::Prefix got =
        cache_.Take(sequence.salt, sequence.tokens, most);
    const PrefixCache::Prefix want =
        twin_.Take(sequence.salt, sequence.tokens, most);
    EXPECT_EQ(longest, got.tokens);
    ASSERT_EQ(got.tokens, want.tokens);
    ASSERT_EQ(got.blocks, want.blocks);
    ASSERT_EQ(got.tail_block, want.tail_block);
    ASSERT_EQ(got.slot, want.slot);
    sequence.blocks = got.blocks;
    const int64_t all = CeilDivide(length, limits_.block_tokens);
    if (Allocate(all - static_cast<int64_t>(got.blocks.size()), sequence))
      running_.push_back(sequence);
    else
      Release(sequence);
  }

  void Grow() {
    if (running_.empty()) return;
    Sequence& sequence = Any();
    sequence.tokens.push_back(Chance(6) ? 1 : 0);
    const bool full =
        static_cast<int64_t>(sequence.tokens.size()) >
        static_cast<int64_t>(sequence.blocks.size()) * limits_.block_tokens;
    if (full && !Allocate(1, sequence)) sequence.tokens.pop_back();
  }

  void Keep() {
    if (running_.empty()) return;
    const Sequence& sequence = Any();
    const std::optional<int32_t> slot = cache_.ReserveSnapshot();
    ASSERT_EQ(slot, twin_.AllocateSlot());
    if (!slot.has_value()) return;
    const int64_t n = Draw(1, static_cast<int64_t>(sequence.tokens.size()));
    const Tokens tokens(sequence.tokens.begin(), sequence.tokens.begin() + n);
    const std::vector<int32_t> blocks(
        sequence.blocks.begin(),
        sequence.blocks.begin() + CeilDivide(n, limits_.block_tokens));
    last_ = cache_.Insert(sequence.salt, tokens, blocks, *slot);
    twin_.Insert(sequence.salt, tokens, blocks, *slot, last_);
  }

  void End() {
    if (running_.empty()) return;
    Sequence& sequence = Any();
    Release(sequence);
    std::swap(sequence, running_.back());
    running_.pop_back();
  }

  void Drop() {
    const int64_t id = Draw(0, last_);
    cache_.Drop(id);
    twin_.Drop(id);
  }

  void HoldASlot() {
    const std::optional<int32_t> slot = cache_.AllocateSlot();
    ASSERT_EQ(slot, twin_.AllocateSlot());
    if (!slot.has_value() || Chance(3)) {
      for (const int32_t held : slots_) {
        cache_.ReleaseSlot(held);
        twin_.ReleaseSlot(held);
      }
      slots_.clear();
    }
    if (slot.has_value()) slots_.push_back(*slot);
  }

  void Flush() {
    cache_.Flush();
    twin_.Flush();
  }

  Sequence& Any() {
    return running_[Draw(0, static_cast<int64_t>(running_.size()) - 1)];
  }

  bool Allocate(int64_t count, Sequence& sequence) {
    const int64_t available = cache_.available_blocks();
    const std::optional<std::vector<int32_t>> blocks =
        cache_.AllocateBlocks(count);
    EXPECT_EQ(blocks.has_value(), count <= available);
    EXPECT_EQ(blocks, twin_.AllocateBlocks(count));
    if (!blocks.has_value()) return false;
    sequence.blocks.insert(sequence.blocks.end(), blocks->begin(),
                           blocks->end());
    return true;
  }

  void Release(const Sequence& sequence) {
    cache_.ReleaseBlocks(sequence.blocks);
    twin_.ReleaseBlocks(sequence.blocks);
  }

  void CheckCounts() {
    const PrefixCache::Counts got = cache_.counts();
    const PrefixCache::Counts want = twin_.Counts();
    ASSERT_EQ(got.blocks_live, want.blocks_live);
    ASSERT_EQ(got.blocks_reusable, want.blocks_reusable);
    ASSERT_EQ(got.blocks_free, want.blocks_free);
    ASSERT_EQ(got.slots_live, want.slots_live);
    ASSERT_EQ(got.slots_snapshot, want.slots_snapshot);
    ASSERT_EQ(got.slots_free, want.slots_free);
    EXPECT_EQ(cache_.available_blocks(), got.blocks_reusable + got.blocks_free);
    EXPECT_EQ(cache_.available_slots(), got.slots_snapshot + got.slots_free);
  }

  std::mt19937_64 random_;
  const PrefixCache::Limits limits_;
  PrefixCache cache_;
  Twin twin_;
  std::vector<Sequence> running_;
  std::vector<int32_t> slots_;  // Held by nobody in particular.
  int64_t last_ = 0;            // The name of the last snapshot.
};

TEST(PrefixCacheSimulation, AnswersAsAPlainTwin) {
  for (int world = 0; world < kWorlds; ++world) {
    const uint64_t seed = BaseSeed() + world;
    SCOPED_TRACE("PHALANX_TEST_SEED=" + std::to_string(seed));
    ASSERT_NO_FATAL_FAILURE(World(seed).Run());
  }
}

}  // namespace
}  // namespace phalanx
