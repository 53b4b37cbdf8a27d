#ifndef PHALANX_WORKER_EXPERTS_SLOT_TABLE_H_
#define PHALANX_WORKER_EXPERTS_SLOT_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

namespace phalanx {

struct ExpertId {
  int layer = 0;
  int expert = 0;
  bool operator==(const ExpertId&) const = default;
};

enum class SlotState : uint8_t { kFree, kFetching, kReady };

// Which slot holds which expert: states, order of use, pins; bookkeeping only,
// no memory and no threads. A slot is free, or has one expert that is being
// fetched or ready; an expert has at most one slot. Taken for a new expert are
// free slots first, then the ready one without a pin whose last use is oldest
// (never used: older than all; the lower slot where equal). One thread at a
// time.
class SlotTable {
 public:
  static constexpr int64_t kNone = -1;

  SlotTable(int64_t slots, int64_t layers, int64_t experts);

  // The slot of the expert, in whichever state, or kNone.
  int64_t Find(ExpertId id) const { return slot_of_[Index(id)]; }
  SlotState state(int64_t slot) const { return At(slot).state; }
  ExpertId expert(int64_t slot) const { return At(slot).id; }  // Not of kFree.

  // A slot for an expert that has none, now kFetching and never used; kNone
  // where all are pinned or being fetched.
  int64_t Take(ExpertId id);
  void SetReady(int64_t slot);  // From kFetching.
  void Release(int64_t slot);   // From kFetching, to kFree: it will not come.

  // This is the last use so far. Not of a free slot, as all below.
  void Use(int64_t slot);
  // A pinned slot keeps its expert; pins are counted. Release wants none.
  void Pin(int64_t slot);
  void Unpin(int64_t slot);

  int64_t slots() const { return static_cast<int64_t>(entries_.size()); }
  int64_t used() const { return used_; }  // Not free.

 private:
  struct Entry {
    ExpertId id;
    SlotState state = SlotState::kFree;
    int pins = 0;
    int64_t last_use = 0;
  };

  size_t Index(ExpertId id) const;
  Entry& At(int64_t slot) { return entries_[static_cast<size_t>(slot)]; }
  const Entry& At(int64_t slot) const {
    return entries_[static_cast<size_t>(slot)];
  }
  static bool Evictable(const Entry& entry) {
    return entry.state == SlotState::kReady && entry.pins == 0;
  }
  // Around each change of what the order of eviction depends on.
  void Leave(int64_t slot);
  void Enter(int64_t slot);

  const int64_t experts_;
  std::vector<Entry> entries_;
  std::vector<int64_t> slot_of_;  // By layer * experts + expert.
  std::vector<int64_t> free_;     // Lowest slot last.
  // (last use, slot) of those that may go, oldest first.
  std::set<std::pair<int64_t, int64_t>> evictable_;
  int64_t uses_ = 0;
  int64_t used_ = 0;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_EXPERTS_SLOT_TABLE_H_
