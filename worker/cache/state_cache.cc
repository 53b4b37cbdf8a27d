#include "worker/cache/state_cache.h"

#include "common/check.h"
#include "common/status.h"

namespace phalanx {

absl::StatusOr<std::unique_ptr<StateCache>> StateCache::Create(
    Backend& backend, const StateCacheShape& shape) {
  const DType act = backend.activation_dtype();
  ASSIGN_OR_RETURN(
      Buffer memory,
      backend.Allocate(shape.slots * shape.slot_bytes(act),
                       MemoryComponent::kStates, "the GDN state slots"));
  return std::unique_ptr<StateCache>(
      new StateCache(shape, act, std::move(memory)));
}

Tensor StateCache::state(int64_t layer) const {
  CHECK(layer >= 0 && layer < shape_.layers);
  Tensor t = MakeTensor(nullptr, DType::kF32, shape_.slots, shape_.value_heads,
                        shape_.value_dim, shape_.key_dim);
  t.data = static_cast<float*>(memory_.data()) + layer * t.elements();
  return t;
}

Tensor StateCache::conv(int64_t layer) const {
  CHECK(layer >= 0 && layer < shape_.layers);
  const int64_t states = shape_.layers * shape_.slots * shape_.value_heads *
                         shape_.value_dim * shape_.key_dim;
  Tensor t = MakeTensor(nullptr, act_, shape_.slots, shape_.conv_width - 1,
                        shape_.conv_channels);
  t.data = static_cast<char*>(memory_.data()) + states * 4 +
           layer * t.elements() * ElementBytes(act_);
  return t;
}

void StateCache::Copy(Ops& ops, int32_t from, int32_t to) const {
  if (shape_.layers == 0) return;
  for (const Tensor& first : {state(0), conv(0)})
    ops.Copy(InEveryLayer(first, from), InEveryLayer(first, to));
}

Tensor StateCache::InEveryLayer(Tensor first, int32_t slot) const {
  CHECK(slot >= 0 && slot < shape_.slots);
  Tensor rows =
      MakeTensor(nullptr, first.dtype, shape_.layers, first.row_elements());
  rows.row_stride = first.elements();
  rows.data = Rows(first, slot, 1).data;
  return rows;
}

}  // namespace phalanx
