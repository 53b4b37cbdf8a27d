#ifndef PHALANX_WORKER_CACHE_BLOCK_POOL_H_
#define PHALANX_WORKER_CACHE_BLOCK_POOL_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace phalanx {

// Which KV blocks are free. Bookkeeping only: the memory is kv_cache's. The
// lowest free index goes first, so that equal runs use equal blocks. One
// thread.
class BlockPool {
 public:
  // Blocks 0 .. capacity - 1, all free. capacity >= 0.
  explicit BlockPool(int64_t capacity);

  // `count` (>= 0) blocks in ascending order, or nothing at all if fewer are
  // free.
  std::optional<std::vector<int32_t>> Allocate(int64_t count);

  // Gives blocks back. Each must be allocated: freeing twice is a bug.
  void Free(std::span<const int32_t> blocks);

  int64_t capacity() const { return static_cast<int64_t>(used_.size()); }
  int64_t free_count() const { return static_cast<int64_t>(free_.size()); }
  int64_t used_count() const { return capacity() - free_count(); }
  // 0 <= block < capacity().
  bool is_used(int32_t block) const;

 private:
  std::vector<int32_t> free_;  // A heap, lowest index on top.
  std::vector<bool> used_;     // Block -> allocated.
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_CACHE_BLOCK_POOL_H_
