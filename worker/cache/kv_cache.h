#ifndef PHALANX_WORKER_CACHE_KV_CACHE_H_
#define PHALANX_WORKER_CACHE_KV_CACHE_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace phalanx {

// Sizes of one rank's KV cache. A layer here is an attention layer; layers of
// other kinds have no keys.
struct KvCacheShape {
  int64_t layers = 0;
  int64_t kv_heads = 0;  // Of this rank.
  int64_t head_dim = 0;
  int64_t blocks = 0;  // Of kKvBlockTokens tokens.

  // Keys and values of one block in all layers.
  int64_t block_bytes(DType type) const {
    return layers * 2 * kv_heads * kKvBlockTokens * head_dim *
           ElementBytes(type);
  }
};

// The memory of the KV blocks: keys after norm and RoPE, values as projected.
// Which block is whose is PrefixCache's affair. Allocated once, for the life of
// the worker; read and written by the engine thread's ops.
class KvCache {
 public:
  static absl::StatusOr<std::unique_ptr<KvCache>> Create(
      Backend& backend, const KvCacheShape& shape);

  // [blocks, kv_heads, 64, head_dim] act, of the attention layer with this
  // ordinal.
  Tensor keys(int64_t layer) const;
  Tensor values(int64_t layer) const;

  // Enqueues the copy of one block's keys and values to another, in every
  // layer; nothing where they are the same.
  void Copy(Ops& ops, int32_t from, int32_t to) const;

  const KvCacheShape& shape() const { return shape_; }
  int64_t bytes() const { return shape_.blocks * shape_.block_bytes(type_); }

 private:
  KvCache(const KvCacheShape& shape, DType type, Buffer memory)
      : shape_(shape), type_(type), memory_(std::move(memory)) {}
  Tensor Plane(int64_t index) const;
  Tensor InEveryPlane(int32_t block) const;

  KvCacheShape shape_;
  DType type_;
  Buffer memory_;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_CACHE_KV_CACHE_H_
