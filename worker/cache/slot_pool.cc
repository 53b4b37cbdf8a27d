#include "worker/cache/slot_pool.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "common/check.h"

namespace phalanx {

SlotPool::SlotPool(int64_t capacity) {
  CHECK(capacity >= 0);
  free_.resize(capacity);
  used_.resize(capacity);
  std::iota(free_.begin(), free_.end(), 0);  // Ascending: a heap already.
}

std::optional<int32_t> SlotPool::Allocate() {
  if (free_.empty()) return std::nullopt;
  std::pop_heap(free_.begin(), free_.end(), std::greater<>());
  const int32_t slot = free_.back();
  free_.pop_back();
  used_[slot] = true;
  return slot;
}

void SlotPool::Free(int32_t slot) {
  CHECK(is_used(slot));
  used_[slot] = false;
  free_.push_back(slot);
  std::push_heap(free_.begin(), free_.end(), std::greater<>());
}

bool SlotPool::is_used(int32_t slot) const {
  CHECK(slot >= 0 && slot < capacity());
  return used_[slot];
}

}  // namespace phalanx
