#ifndef PHALANX_KERNELS_CPU_EXPERTS_H_
#define PHALANX_KERNELS_CPU_EXPERTS_H_

// Ops::ExpertsGateUp and ExpertsDown, for any kernel family D.

#include "kernels/cpu/matmul.h"

namespace phalanx::PHALANX_ISA {

// The planes of a down product: [token][tile][slice][32], as many tokens and
// tiles at a time as fit.
inline constexpr int64_t kPlaneFloats = int64_t{128} * 1024;

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

  const int64_t work = x.dims[0] * per_token * tiles * TileElements(w.cols);
  const int64_t parts = Max(1, Min(tiles, PartsForThreads(pool, work, count)));
  const int64_t panel_rows = PanelRows<D>(ViewOf(w, 0, 1));
  pool.ParallelFor(count * parts, [&](int64_t task) {
    const int32_t expert = active[task / parts];
    const int64_t place = routing.place(expert);
    CHECK(place >= 0 && place < w.count);
    const int64_t part = task % parts;
    const int64_t end = offsets[expert + 1];
    for (int64_t begin = offsets[expert]; begin < end; begin += panel_rows) {
      RowsTimesTiles<D>(
          [&](int64_t r) {
            return x.row<uint16_t>(order[begin + r] / per_token);
          },
          Min(panel_rows, end - begin), ViewOf(w, place, 1),
          PartBegin(tiles, parts, part), PartBegin(tiles, parts, part + 1),
          [&](int64_t r, int64_t tile, const float* values) {
            StoreGateUpTile(values, tile, w.rows / 2,
                            hidden.row<uint16_t>(order[begin + r]));
          });
    }
  });
}

// One task of ExpertsDown: some tokens, some tiles.
template <typename D>
class DownTask {
 public:
  DownTask(Tensor hidden, const PackedWeight& w, const Routing& routing,
           Tensor shared_hidden, const PackedWeight& shared_w,
           Tensor shared_gate, int slices, Tensor y)
      : hidden_(hidden),
        w_(w),
        shared_hidden_(shared_hidden),
        shared_w_(shared_w),
        shared_gate_(shared_gate),
        slices_(slices),
        y_(y),
        per_token_(routing.expert.dims[1]),
        experts_(routing.offsets.dims[0] - 1),
        offsets_(static_cast<const int32_t*>(routing.offsets.data)),
        order_(static_cast<const int32_t*>(routing.order.data)),
        routing_(routing) {}

  // Tokens [first_token, last_token) of tiles [first_tile, last_tile); together
  // they fit into kPlaneFloats.
  void Run(int64_t first_token, int64_t last_token, int64_t first_tile,
           int64_t last_tile) const {
    alignas(64) float planes[kPlaneFloats];
    const int64_t tiles = last_tile - first_tile;
    const int64_t token_floats = tiles * slices_ * kTileOutputs;
    const int64_t tokens = last_token - first_token;
    for (int64_t i = 0; i < tokens * token_floats; ++i) planes[i] = 0.0f;

    for (int64_t e = 0; e < experts_; ++e) {
      int64_t begin = offsets_[e];
      int64_t end = offsets_[e + 1];
      while (begin < end && order_[begin] < first_token * per_token_) ++begin;
      while (begin < end && order_[end - 1] >= last_token * per_token_) --end;
      if (begin == end) continue;
      const int64_t place = routing_.place(e);
      CHECK(place >= 0 && place < w_.count);
      Accumulate(
          ViewOf(w_, place, slices_), end - begin, first_tile, tiles,
          [&](int64_t i) { return hidden_.row<uint16_t>(order_[begin + i]); },
          [&](int64_t i) {
            const int64_t entry = order_[begin + i];
            return routing_.weight.row<float>(entry /
                                              per_token_)[entry % per_token_];
          },
          [&](int64_t i) {
            return planes + (order_[begin + i] / per_token_ - first_token) *
                                token_floats;
          });
    }
    Accumulate(
        ViewOf(shared_w_, 0, slices_), tokens, first_tile, tiles,
        [&](int64_t i) {
          return shared_hidden_.row<uint16_t>(first_token + i);
        },
        [&](int64_t i) {
          const float gate =
              Bf16ToF32(*shared_gate_.row<uint16_t>(first_token + i));
          return FirstLane(Sigmoid(Broadcast(gate)));
        },
        [&](int64_t i) { return planes + i * token_floats; });

    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t tile = 0; tile < tiles; ++tile) {
        float* plane =
            planes + t * token_floats + tile * slices_ * kTileOutputs;
        AddSlices(plane, slices_, kTileOutputs, kTileOutputs);
        StoreTile(plane, first_tile + tile, w_.rows,
                  y_.row<float>(first_token + t));
      }
    }
  }

 private:
  // plane += factor * (row times matrix)_slice, for `count` rows of one expert.
  template <typename RowAt, typename FactorAt, typename PlaneAt>
  void Accumulate(const WeightView& w, int64_t count, int64_t first_tile,
                  int64_t tiles, const RowAt& row_at, const FactorAt& factor_at,
                  const PlaneAt& plane_at) const {
    alignas(64) std::byte panel[kPanelBytes];
    const int64_t max_rows = Min(D::kMaxRows, PanelRows<D>(w));
    const int64_t blocks = CeilDiv(count, max_rows);
    for (int64_t b = 0; b < blocks; ++b) {
      const int64_t begin = PartBegin(count, blocks, b);
      const int64_t rows = PartBegin(count, blocks, b + 1) - begin;
      float factors[kMaxBlockRows];
      float* planes[kMaxBlockRows];
      for (int64_t r = 0; r < rows; ++r) {
        factors[r] = factor_at(begin + r);
        planes[r] = plane_at(begin + r);
      }
      LoadBlock<D>(row_at, begin, rows, w, panel);
      AccumulateBlock(panel, rows, w, first_tile, tiles, factors, planes);
    }
  }

  void AccumulateBlock(const std::byte* panel, int64_t rows,
                       const WeightView& w, int64_t first_tile, int64_t tiles,
                       const float* factors, float* const* planes) const {
    const DotKernels& kernels = kDotKernels<D>[rows];
    alignas(64) float dots[kMaxDotFloats];
    for (int64_t tile = 0; tile < tiles;) {
      const bool wide = tiles - tile >= kernels.wide_tiles;
      const int64_t step = wide ? kernels.wide_tiles : 1;
      for (int s = 0; s < slices_; ++s) {
        (wide ? kernels.wide : kernels.one)(panel, w.tile(first_tile + tile), w,
                                            s, dots);
        const float* dot = dots;
        for (int64_t r = 0; r < rows; ++r) {
          const F32x16 factor = Broadcast(factors[r]);
          for (int64_t t = 0; t < step; ++t) {
            float* plane =
                planes[r] + ((tile + t) * slices_ + s) * kTileOutputs;
            for (int half = 0; half < 2; ++half, dot += kLanes) {
              float* sum = plane + half * kLanes;
              Store(sum, Fma(factor, Load(dot), Load(sum)));
            }
          }
        }
      }
      tile += step;
    }
  }

  const Tensor hidden_;
  const PackedWeight& w_;
  const Tensor shared_hidden_;
  const PackedWeight& shared_w_;
  const Tensor shared_gate_;
  const int slices_;
  const Tensor y_;
  const int64_t per_token_;
  const int64_t experts_;
  const int32_t* const offsets_;
  const int32_t* const order_;
  const Routing& routing_;
};

template <typename D>
void ExpertsDownAs(ThreadPool& pool, Tensor hidden, const PackedWeight& w,
                   Routing routing, Tensor shared_hidden,
                   const PackedWeight& shared_w, Tensor shared_gate, int slices,
                   Tensor y) {
  const int64_t tokens = y.dims[0];
  if (tokens == 0) return;
  const int64_t tiles = Tiles(w);
  const int64_t tile_floats = slices * kTileOutputs;
  const int64_t groups = CeilDiv(tokens, kPlaneFloats / tile_floats);
  const int64_t group_tokens = CeilDiv(tokens, groups);
  const int64_t work = tiles * (hidden.dims[0] * TileElements(w.cols) +
                                tokens * TileElements(shared_w.cols));
  const int64_t max_tiles = kPlaneFloats / (group_tokens * tile_floats);
  const int64_t parts = Min(tiles, Max(CeilDiv(tiles, max_tiles),
                                       PartsForThreads(pool, work, groups)));
  const DownTask<D> task(hidden, w, routing, shared_hidden, shared_w,
                         shared_gate, slices, y);
  pool.ParallelFor(parts * groups, [&](int64_t index) {
    const int64_t part = index / groups;
    const int64_t group = index % groups;
    task.Run(PartBegin(tokens, groups, group),
             PartBegin(tokens, groups, group + 1),
             PartBegin(tiles, parts, part), PartBegin(tiles, parts, part + 1));
  });
}

}  // namespace phalanx::PHALANX_ISA

#endif  // PHALANX_KERNELS_CPU_EXPERTS_H_
