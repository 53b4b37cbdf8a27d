#ifndef PHALANX_KERNELS_CPU_EXPERTS_DOWN_H_
#define PHALANX_KERNELS_CPU_EXPERTS_DOWN_H_

// Ops::ExpertsDown, for any kernel family D.
//
// Each output is the tree over slices of a sum over a token's experts, in
// order. A task owns some tiles of all tokens and keeps their sums, a plane a
// slice: experts pass by, in order, and add to the rows of their tokens.

#include <cstdint>
#include <vector>

#include "common/check.h"
#include "kernels/cpu/matmul.h"

namespace phalanx::PHALANX_ISA {

// Sums of a task, on its stack: [slice][token][tile][32].
inline constexpr int64_t kPlaneFloats = int64_t{128} * 1024;

// Sums that experts add to in one pass: what stays in a second-level cache
// beside weights and panels, half of which may belong to another thread.
inline constexpr int64_t kHotPlaneFloats = int64_t{32} * 1024;

// Tokens at a time: their sums for one tile fit into kPlaneFloats.
inline constexpr int64_t kDownTokens =
    kPlaneFloats / (kContractionSlices * kTileOutputs);

// What a task asks for of the next matrix while it ends the one before.
inline constexpr int64_t kHeadBytes = 4096;

// Some rows of one matrix: an expert's, or the shared expert's.
struct DownBlock {
  WeightView w;
  int64_t panel = 0;  // Offset in bytes.
  int64_t first = 0;  // Of its rows among all.
  int64_t rows = 0;
  int64_t of_matrix = 0;  // Which block of its matrix this is.
  // The matrix after this one; at the end, this one again.
  const std::byte* next = nullptr;
};

// The blocks of some tokens in the order in which they add up, and their rows
// in panels.
template <typename D>
class DownRows {
 public:
  // Prepares tokens [first, first + count).
  void Prepare(ThreadPool& pool, Tensor hidden, const PackedWeight& w,
               const Routing& routing, Tensor shared_hidden,
               const PackedWeight& shared_w, Tensor shared_gate, int slices,
               int64_t first, int64_t count);

  const std::vector<DownBlock>& blocks() const { return blocks_; }
  const std::byte* panel(const DownBlock& block) const {
    return panel_ + block.panel;
  }
  // Of row i: what its product is multiplied by, and its token.
  float factor(int64_t i) const { return factors_[i]; }
  int64_t token(int64_t i) const { return tokens_[i]; }

 private:
  void AddMatrix(const WeightView& w, int64_t rows);
  void AddRow(const uint16_t* x, float factor, int64_t token) {
    x_.push_back(x);
    factors_.push_back(factor);
    tokens_.push_back(static_cast<int32_t>(token));
  }
  void FillPanels(ThreadPool& pool);

  std::vector<DownBlock> blocks_;
  std::vector<const uint16_t*> x_;
  std::vector<float> factors_;
  std::vector<int32_t> tokens_;
  int64_t panel_bytes_ = 0;
  std::byte* panel_ = nullptr;
};

template <typename D>
void DownRows<D>::Prepare(ThreadPool& pool, Tensor hidden,
                          const PackedWeight& w, const Routing& routing,
                          Tensor shared_hidden, const PackedWeight& shared_w,
                          Tensor shared_gate, int slices, int64_t first,
                          int64_t count) {
  blocks_.clear();
  x_.clear();
  factors_.clear();
  tokens_.clear();
  panel_bytes_ = 0;
  const int64_t per_token = routing.expert.dims[1];
  const int64_t experts = routing.offsets.dims[0] - 1;
  const auto* offsets = static_cast<const int32_t*>(routing.offsets.data);
  const auto* order = static_cast<const int32_t*>(routing.order.data);
  for (int64_t e = 0; e < experts; ++e) {
    int64_t begin = offsets[e];
    int64_t end = offsets[e + 1];
    while (begin < end && order[begin] < first * per_token) ++begin;
    while (begin < end && order[end - 1] >= (first + count) * per_token) --end;
    if (begin == end) continue;
    const int64_t place = routing.place(e);
    CHECK(place >= 0 && place < w.count);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t token = order[i] / per_token;
      AddRow(hidden.row<uint16_t>(order[i]),
             routing.weight.row<float>(token)[order[i] % per_token],
             token - first);
    }
    AddMatrix(ViewOf(w, place, slices), end - begin);
  }
  for (int64_t t = 0; t < count; ++t) {
    const float gate = Bf16ToF32(*shared_gate.row<uint16_t>(first + t));
    AddRow(shared_hidden.row<uint16_t>(first + t),
           FirstLane(Sigmoid(Broadcast(gate))), t);
  }
  AddMatrix(ViewOf(shared_w, 0, slices), count);
  FillPanels(pool);
}

// The blocks of the last `rows` rows that were added.
template <typename D>
void DownRows<D>::AddMatrix(const WeightView& w, int64_t rows) {
  const auto before = static_cast<int64_t>(x_.size()) - rows;
  const PanelBlocks cut = PanelBlocks::Of<D>(rows, w);
  for (auto last = blocks_.rbegin();
       last != blocks_.rend() && last->next == last->w.data; ++last)
    last->next = w.data;
  for (int64_t b = 0; b < cut.count; ++b) {
    blocks_.push_back({.w = w,
                       .panel = panel_bytes_ + cut.offset(b),
                       .first = before + cut.begin(b),
                       .rows = cut.size(b),
                       .of_matrix = b,
                       .next = w.data});
  }
  panel_bytes_ += cut.bytes();
}

template <typename D>
void DownRows<D>::FillPanels(ThreadPool& pool) {
  panel_ = OpPanel(panel_bytes_);
  constexpr int64_t kTasks = 16;
  const auto count = static_cast<int64_t>(blocks_.size());
  const int64_t tasks =
      panel_bytes_ <= kSmallPanelBytes ? 1 : Min(count, kTasks);
  pool.ParallelFor(tasks, [&](int64_t task) {
    const int64_t end = PartBegin(count, tasks, task + 1);
    for (int64_t b = PartBegin(count, tasks, task); b < end; ++b) {
      const DownBlock& block = blocks_[b];
      D::LoadBlock(&x_[block.first], block.rows, block.w, panel_ + block.panel);
    }
  });
}

// One task: all tokens of `rows`, some tiles.
template <typename D>
class DownTask {
 public:
  // Tiles [first_tile, first_tile + tiles); with the tokens they fit into
  // kPlaneFloats. y are the tokens' rows, `outputs` wide.
  DownTask(const DownRows<D>& rows, int slices, int64_t first_tile,
           int64_t tiles)
      : rows_(rows), slices_(slices), first_tile_(first_tile), tiles_(tiles) {}

  void Run(int64_t tokens, int64_t outputs, Tensor y) const {
    alignas(64) float planes[kPlaneFloats];
    const int64_t token_floats = tiles_ * kTileOutputs;
    const int64_t plane_floats = tokens * token_floats;
    for (int64_t i = 0; i < slices_ * plane_floats; ++i) planes[i] = 0.0f;

    int pass = slices_;
    while (pass > 1 && pass * plane_floats > kHotPlaneFloats) pass /= 2;
    for (int s = 0; s < slices_; s += pass)
      for (const DownBlock& block : rows_.blocks())
        Accumulate(block, s, s + pass, planes, plane_floats);

    AddSlices(planes, slices_, plane_floats, plane_floats);
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t tile = 0; tile < tiles_; ++tile) {
        StoreTile(planes + t * token_floats + tile * kTileOutputs,
                  first_tile_ + tile, outputs, y.row<float>(t));
      }
    }
  }

 private:
  // plane += factor * (row times matrix)_slice, for slices [first, last).
  void Accumulate(const DownBlock& block, int first, int last, float* planes,
                  int64_t plane_floats) const {
    const WeightView& w = block.w;
    const DotKernels& kernels = kDotKernels<D>[block.rows];
    const int64_t ahead = block.next - w.data;
    alignas(64) float dots[kMaxDotFloats];
    for (int64_t tile = 0; tile < tiles_;) {
      const bool wide = tiles_ - tile >= kernels.wide_tiles;
      const int64_t step = wide ? kernels.wide_tiles : 1;
      for (int s = first; s < last; ++s) {
        if (tile + step == tiles_) PrefetchHead(block, s);
        (wide ? kernels.wide : kernels.one)(
            rows_.panel(block), w.tile(first_tile_ + tile), w, s, ahead, dots);
        AddTo(planes + s * plane_floats, block, tile, step, dots);
      }
      tile += step;
    }
  }

  // A part of the beginning of the next matrix's tiles.
  void PrefetchHead(const DownBlock& block, int slice) const {
    const int64_t bytes = kHeadBytes / slices_;
    const std::byte* head =
        block.next + first_tile_ * block.w.tile_bytes + slice * bytes;
    for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(head + i);
  }

  // A slice's plane of the rows of a block and tiles [tile, tile + step).
  void AddTo(float* plane, const DownBlock& block, int64_t tile, int64_t step,
             const float* dots) const {
    for (int64_t r = 0; r < block.rows; ++r) {
      const F32x16 factor = Broadcast(rows_.factor(block.first + r));
      float* sum =
          plane + (rows_.token(block.first + r) * tiles_ + tile) * kTileOutputs;
      for (int64_t i = 0; i < step * kTileOutputs; i += kLanes, dots += kLanes)
        Store(sum + i, Fma(factor, Load(dots), Load(sum + i)));
    }
  }

  const DownRows<D>& rows_;
  const int slices_;
  const int64_t first_tile_;
  const int64_t tiles_;
};

template <typename D>
void ExpertsDownAs(ThreadPool& pool, Tensor hidden, const PackedWeight& w,
                   Routing routing, Tensor shared_hidden,
                   const PackedWeight& shared_w, Tensor shared_gate, int slices,
                   Tensor y) {
  static thread_local DownRows<D> of_thread;
  DownRows<D>& rows = of_thread;
  const int64_t groups = CeilDiv(y.dims[0], kDownTokens);
  for (int64_t group = 0; group < groups; ++group) {
    const int64_t first = PartBegin(y.dims[0], groups, group);
    const int64_t tokens = PartBegin(y.dims[0], groups, group + 1) - first;
    rows.Prepare(pool, hidden, w, routing, shared_hidden, shared_w, shared_gate,
                 slices, first, tokens);

    int64_t bytes = 0;
    int64_t work = 0;
    for (const DownBlock& block : rows.blocks()) {
      if (block.of_matrix == 0) bytes += w.matrix_bytes;
      work += block.rows * w.rows * block.w.cols;
    }
    const int64_t tiles = Tiles(w);
    const int64_t max_tiles = kPlaneFloats / (tokens * slices * kTileOutputs);
    const int64_t parts = Min(
        tiles,
        Max(CeilDiv(tiles, max_tiles), PartsForThreads(pool, bytes, work, 1)));
    Tensor part_of_y = y;
    part_of_y.data = y.row<float>(first);
    part_of_y.dims[0] = tokens;
    pool.ParallelFor(parts, [&](int64_t part) {
      const int64_t tile = PartBegin(tiles, parts, part);
      DownTask<D>(rows, slices, tile, PartBegin(tiles, parts, part + 1) - tile)
          .Run(tokens, w.rows, part_of_y);
    });
  }
}

}  // namespace phalanx::PHALANX_ISA

#endif  // PHALANX_KERNELS_CPU_EXPERTS_DOWN_H_
