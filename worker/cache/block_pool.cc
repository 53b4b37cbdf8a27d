#include "worker/cache/block_pool.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "common/check.h"

namespace phalanx {

BlockPool::BlockPool(int64_t capacity) {
  CHECK(capacity >= 0);
  free_.resize(capacity);
  used_.resize(capacity);
  std::iota(free_.begin(), free_.end(), 0);  // Ascending: a heap already.
}

std::optional<std::vector<int32_t>> BlockPool::Allocate(int64_t count) {
  CHECK(count >= 0);
  if (count > free_count()) return std::nullopt;
  std::vector<int32_t> blocks;
  blocks.reserve(count);
  for (int64_t i = 0; i < count; ++i) {
    std::pop_heap(free_.begin(), free_.end(), std::greater<>());
    blocks.push_back(free_.back());
    used_[free_.back()] = true;
    free_.pop_back();
  }
  return blocks;
}

void BlockPool::Free(std::span<const int32_t> blocks) {
  for (const int32_t block : blocks) {
    CHECK(is_used(block));
    used_[block] = false;
    free_.push_back(block);
    std::push_heap(free_.begin(), free_.end(), std::greater<>());
  }
}

bool BlockPool::is_used(int32_t block) const {
  CHECK(block >= 0 && block < capacity());
  return used_[block];
}

}  // namespace phalanx
