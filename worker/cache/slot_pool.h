#ifndef PHALANX_WORKER_CACHE_SLOT_POOL_H_
#define PHALANX_WORKER_CACHE_SLOT_POOL_H_

#include <cstdint>
#include <optional>
#include <vector>

namespace phalanx {

// Which slots of GDN state are free. Bookkeeping only: the memory is
// state_cache's. The lowest free index goes first. One thread.
class SlotPool {
 public:
  // Slots 0 .. capacity - 1, all free. capacity >= 0.
  explicit SlotPool(int64_t capacity);

  // A slot, or nothing if none is free.
  std::optional<int32_t> Allocate();

  // Gives a slot back. It must be allocated: freeing twice is a bug.
  void Free(int32_t slot);

  int64_t capacity() const { return static_cast<int64_t>(used_.size()); }
  int64_t free_count() const { return static_cast<int64_t>(free_.size()); }
  int64_t used_count() const { return capacity() - free_count(); }
  // 0 <= slot < capacity().
  bool is_used(int32_t slot) const;

 private:
  std::vector<int32_t> free_;  // A heap, lowest index on top.
  std::vector<bool> used_;     // Slot -> allocated.
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_CACHE_SLOT_POOL_H_
