#include "worker/cache/kv_cache.h"

#include "common/check.h"
#include "common/status.h"
#include "kernels/sequences.h"

namespace phalanx {

absl::StatusOr<std::unique_ptr<KvCache>> KvCache::Create(
    Backend& backend, const KvCacheShape& shape) {
  const DType type = backend.activation_dtype();
  ASSIGN_OR_RETURN(
      Buffer memory,
      backend.Allocate(shape.blocks * shape.block_bytes(type),
                       MemoryComponent::kKeysValues, "the KV cache"));
  return std::unique_ptr<KvCache>(new KvCache(shape, type, std::move(memory)));
}

Tensor KvCache::keys(int64_t layer) const { return Plane(2 * layer); }
Tensor KvCache::values(int64_t layer) const { return Plane(2 * layer + 1); }

Tensor KvCache::Plane(int64_t index) const {
  CHECK(index >= 0 && index < 2 * shape_.layers);
  Tensor plane = MakeTensor(nullptr, type_, shape_.blocks, shape_.kv_heads,
                            kKvBlockTokens, shape_.head_dim);
  plane.data = static_cast<char*>(memory_.data()) +
               index * plane.elements() * ElementBytes(type_);
  return plane;
}

void KvCache::Copy(Ops& ops, int32_t from, int32_t to) const {
  ops.Copy(InEveryPlane(from), InEveryPlane(to));
}

// [planes, elements of a block]
Tensor KvCache::InEveryPlane(int32_t block) const {
  CHECK(block >= 0 && block < shape_.blocks);
  const int64_t elements = shape_.kv_heads * kKvBlockTokens * shape_.head_dim;
  Tensor rows = MakeTensor(nullptr, type_, 2 * shape_.layers, elements);
  rows.row_stride = shape_.blocks * elements;
  rows.data = static_cast<char*>(memory_.data()) +
              block * elements * ElementBytes(type_);
  return rows;
}

}  // namespace phalanx
