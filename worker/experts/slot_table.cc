#include "worker/experts/slot_table.h"

#include "common/check.h"

namespace phalanx {

SlotTable::SlotTable(int64_t slots, int64_t layers, int64_t experts)
    : experts_(experts),
      entries_(static_cast<size_t>(slots)),
      slot_of_(static_cast<size_t>(layers * experts), kNone) {
  for (int64_t slot = slots - 1; slot >= 0; --slot) free_.push_back(slot);
}

size_t SlotTable::Index(ExpertId id) const {
  CHECK(id.layer >= 0 && id.expert >= 0 && id.expert < experts_);
  const size_t index = static_cast<size_t>(id.layer * experts_ + id.expert);
  CHECK(index < slot_of_.size());
  return index;
}

int64_t SlotTable::Take(ExpertId id) {
  const size_t index = Index(id);
  CHECK(slot_of_[index] == kNone);
  int64_t slot = kNone;
  if (!free_.empty()) {
    slot = free_.back();
    free_.pop_back();
    ++used_;
  } else if (!evictable_.empty()) {
    slot = evictable_.begin()->second;
    evictable_.erase(evictable_.begin());
    slot_of_[Index(At(slot).id)] = kNone;
  } else {
    return kNone;
  }
  At(slot) = {.id = id, .state = SlotState::kFetching};
  slot_of_[index] = slot;
  return slot;
}

void SlotTable::SetReady(int64_t slot) {
  CHECK(At(slot).state == SlotState::kFetching);
  At(slot).state = SlotState::kReady;
  Enter(slot);
}

void SlotTable::Release(int64_t slot) {
  Entry& entry = At(slot);
  CHECK(entry.state == SlotState::kFetching && entry.pins == 0);
  slot_of_[Index(entry.id)] = kNone;
  entry = {};
  free_.push_back(slot);
  --used_;
}

void SlotTable::Use(int64_t slot) {
  CHECK(At(slot).state != SlotState::kFree);
  Leave(slot);
  At(slot).last_use = ++uses_;
  Enter(slot);
}

void SlotTable::Pin(int64_t slot) {
  CHECK(At(slot).state != SlotState::kFree);
  Leave(slot);
  ++At(slot).pins;
}

void SlotTable::Unpin(int64_t slot) {
  CHECK(At(slot).pins > 0);
  --At(slot).pins;
  Enter(slot);
}

void SlotTable::Leave(int64_t slot) {
  if (Evictable(At(slot))) evictable_.erase({At(slot).last_use, slot});
}

void SlotTable::Enter(int64_t slot) {
  if (Evictable(At(slot))) evictable_.insert({At(slot).last_use, slot});
}

}  // namespace phalanx
