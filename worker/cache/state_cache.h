#ifndef PHALANX_WORKER_CACHE_STATE_CACHE_H_
#define PHALANX_WORKER_CACHE_STATE_CACHE_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace phalanx {

// Sizes of one rank's GDN state. A layer here is a gated-delta-net layer.
struct StateCacheShape {
  int64_t layers = 0;
  int64_t value_heads = 0;  // Of this rank, as are the channels.
  int64_t value_dim = 0;
  int64_t key_dim = 0;
  int64_t conv_channels = 0;
  int64_t conv_width = 0;
  int64_t slots = 0;

  // S and the convolution's window of one sequence in all layers.
  int64_t slot_bytes(DType act) const {
    return layers * (value_heads * value_dim * key_dim * 4 +
                     (conv_width - 1) * conv_channels * ElementBytes(act));
  }
};

// The memory of the state slots, one a sequence or a snapshot. Which slot is
// whose is PrefixCache's affair; a fresh sequence needs no clearing, since the
// ops take a slot with no past as zeros. Allocated once, for the life of the
// worker; used by the engine thread's ops.
class StateCache {
 public:
  static absl::StatusOr<std::unique_ptr<StateCache>> Create(
      Backend& backend, const StateCacheShape& shape);

  // [slots, Nv, Dv, Dk] f32, of the GDN layer with this ordinal.
  Tensor state(int64_t layer) const;
  // [slots, W - 1, channels] act: raw rows, oldest first.
  Tensor conv(int64_t layer) const;

  // Enqueues the copy of one slot to another, in every layer; nothing where
  // they are the same.
  void Copy(Ops& ops, int32_t from, int32_t to) const;

  const StateCacheShape& shape() const { return shape_; }
  int64_t bytes() const { return shape_.slots * shape_.slot_bytes(act_); }

 private:
  StateCache(const StateCacheShape& shape, DType act, Buffer memory)
      : shape_(shape), act_(act), memory_(std::move(memory)) {}
  // A slot's part of all states, or all windows: [layers, elements of one].
  Tensor InEveryLayer(Tensor first, int32_t slot) const;

  StateCacheShape shape_;
  DType act_;
  Buffer memory_;  // All states, then all windows.
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_CACHE_STATE_CACHE_H_
