#ifndef PHALANX_KERNELS_CPU_EXPERTS_H_
#define PHALANX_KERNELS_CPU_EXPERTS_H_

// Ops::ExpertsGateUp, for any kernel family D.

#include "common/check.h"
#include "kernels/cpu/matmul.h"

namespace phalanx::PHALANX_ISA {

template <typename D>
void ExpertsGateUpAs(ThreadPool& pool, Tensor x, const PackedWeight& w,
                     Routing routing, Tensor hidden) {
  const int32_t* offsets = static_cast<const int32_t*>(routing.offsets.data);
  const int32_t* order = static_cast<const int32_t*>(routing.order.data);
  const int64_t per_token = routing.expert.dims[1];
  const int64_t tiles = Tiles(w);
  const int64_t experts = routing.offsets.dims[0] - 1;
  CHECK(experts <= kMaxExperts);
  int32_t active[kMaxExperts];
  int64_t count = 0;
  for (int32_t e = 0; e < experts; ++e)
    if (offsets[e] < offsets[e + 1]) active[count++] = e;
  if (count == 0) return;

  const int64_t entries = x.dims[0] * per_token;
  const int64_t parts =
      Max(1, Min(tiles, PartsForThreads(pool, count * w.matrix_bytes,
                                        entries * w.rows * w.cols, count)));
  pool.ParallelFor(count * parts, [&](int64_t task) {
    const int32_t expert = active[task / parts];
    const int64_t place = routing.place(expert);
    CHECK(place >= 0 && place < w.count);
    const int64_t part = task % parts;
    const int64_t begin = offsets[expert];
    RowsTimesTiles<D>(
        [&](int64_t r) {
          return x.row<uint16_t>(order[begin + r] / per_token);
        },
        offsets[expert + 1] - begin, ViewOf(w, place, 1),
        PartBegin(tiles, parts, part), PartBegin(tiles, parts, part + 1),
        [&](int64_t r, int64_t tile, const float* values) {
          StoreGateUpTile(values, tile, w.rows / 2,
                          hidden.row<uint16_t>(order[begin + r]));
        });
  });
}

}  // namespace phalanx::PHALANX_ISA

#endif  // PHALANX_KERNELS_CPU_EXPERTS_H_
