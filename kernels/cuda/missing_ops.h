#ifndef PHALANX_KERNELS_CUDA_MISSING_OPS_H_
#define PHALANX_KERNELS_CUDA_MISSING_OPS_H_

// Operations that have no CUDA kernel yet. The plugin tells their names, so
// that nobody serves a model with it; to call one is a bug. An operation that
// gets its kernel leaves both lists.

#include "common/check.h"
#include "kernels/ops.h"

namespace phalanx::cuda {

inline constexpr char kMissingOps[] =
    "Embed, SelectOwner, GatherRows, Route, ExpertsGateUp, ExpertsDown, Rope, "
    "StoreKv, PagedAttention, ConvSilu, GdnGates, GatedDelta";

class MissingOps : public Ops {
 public:
  void Embed(Tensor, Tensor, int64_t, Tensor) final {
    CHECK(!"CUDA has no Embed");
  }
  void SelectOwner(Tensor, int64_t, Tensor, Tensor) final {
    CHECK(!"CUDA has no SelectOwner");
  }
  void GatherRows(Tensor, Tensor, Tensor) final {
    CHECK(!"CUDA has no GatherRows");
  }
  void Route(Tensor, bool, Routing) final { CHECK(!"CUDA has no Route"); }
  void ExpertsGateUp(Tensor, const PackedWeight&, Routing, Tensor) final {
    CHECK(!"CUDA has no ExpertsGateUp");
  }
  void ExpertsDown(Tensor, const PackedWeight&, Routing, Tensor,
                   const PackedWeight&, Tensor, int, Tensor) final {
    CHECK(!"CUDA has no ExpertsDown");
  }
  void Rope(Tensor, Tensor, Tensor) final { CHECK(!"CUDA has no Rope"); }
  void StoreKv(Tensor, Tensor, Tensor, Tensor, Tensor) final {
    CHECK(!"CUDA has no StoreKv");
  }
  void PagedAttention(Tensor, Tensor, Tensor, const Sequences&, float,
                      Tensor) final {
    CHECK(!"CUDA has no PagedAttention");
  }
  void ConvSilu(Tensor, Tensor, const Sequences&, Tensor, Tensor) final {
    CHECK(!"CUDA has no ConvSilu");
  }
  void GdnGates(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor) final {
    CHECK(!"CUDA has no GdnGates");
  }
  void GatedDelta(Tensor, Tensor, Tensor, Tensor, Tensor, const Sequences&,
                  Tensor, Tensor) final {
    CHECK(!"CUDA has no GatedDelta");
  }
};

}  // namespace phalanx::cuda

#endif  // PHALANX_KERNELS_CUDA_MISSING_OPS_H_
