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

// Sums of a task, on its stack: [slice][token][tile][32]. Half of a
// second-level cache of 1 MiB, beside weights and panels.
inline constexpr int64_t kPlaneFloats = int64_t{128} * 1024;

// Panels up to this size stay in a second-level cache by themselves.
inline constexpr int64_t kCachedPanelBytes = 128 * 1024;

// Tokens at a time: their sums for one tile fit into kPlaneFloats.
inline constexpr int64_t kDownTokens =
    kPlaneFloats / (kContractionSlices * kTileOutputs);

// What a task reads of one matrix is not less than this for the sake of more
// tasks.
inline constexpr int64_t kPieceBytes = 128 * 1024;

// What a task asks for of the next matrix while it ends the one before.
inline constexpr int64_t kHeadBytes = 2048;

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
  int64_t panel_bytes() const { return panel_bytes_; }
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
  // kPlaneFloats.
  DownTask(const DownRows<D>& rows, int slices, int64_t first_tile,
           int64_t tiles)
      : rows_(rows), slices_(slices), first_tile_(first_tile), tiles_(tiles) {}

  // y [tokens, outputs] are the rows of the tokens.
  void Run(int64_t tokens, int64_t outputs, Tensor y) const {
    alignas(64) float planes[kPlaneFloats];
    const int64_t token_floats = tiles_ * kTileOutputs;
    const int64_t plane_floats = tokens * token_floats;
    for (int64_t i = 0; i < slices_ * plane_floats; ++i) planes[i] = 0.0f;
    const auto& blocks = rows_.blocks();
    for (size_t b = 0; b < blocks.size(); ++b) {
      Accumulate(blocks[b], blocks[b + 1 < blocks.size() ? b + 1 : b], planes,
                 plane_floats);
    }
    AddSlices(planes, slices_, plane_floats, plane_floats);
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t tile = 0; tile < tiles_; ++tile) {
        StoreTile(planes + t * token_floats + tile * kTileOutputs,
                  first_tile_ + tile, outputs, y.row<float>(t));
      }
    }
  }

 private:
  // plane += factor * (row times matrix)_slice, for all slices.
  void Accumulate(const DownBlock& block, const DownBlock& next, float* planes,
                  int64_t plane_floats) const {
    const WeightView& w = block.w;
    const DotKernels& kernels = kDotKernels<D>[block.rows];
    const int64_t wide_tiles = TilesAtATime(kernels, w);
    const Ahead ahead = Ahead::Both(block.next - w.data);
    float factors[kMaxBlockRows];
    int64_t row_at[kMaxBlockRows];
    for (int64_t r = 0; r < block.rows; ++r) {
      factors[r] = rows_.factor(block.first + r);
      row_at[r] = rows_.token(block.first + r) * tiles_ * kTileOutputs;
    }
    // With many rows one slice is long enough to ask for something meanwhile.
    const int step = block.rows > kStreamRows ? 1 : slices_;
    for (int64_t tile = 0; tile < tiles_;) {
      const bool wide = wide_tiles > 1 && tiles_ - tile >= wide_tiles;
      const int64_t count = wide ? wide_tiles : 1;
      float* to = planes + tile * kTileOutputs;
      for (int s = 0; s < slices_; s += step, to += plane_floats) {
        if (tile + count == tiles_) {
          PrefetchPanel(next, s, s + step);
          if (step > 1) PrefetchHead(block);
        }
        (wide ? kernels.add_wide : kernels.add_one)(
            rows_.panel(block), w.tile(first_tile_ + tile), w, s, s + step,
            ahead, factors, row_at, to, plane_floats);
      }
      tile += count;
    }
  }

  // What slices [first, last) of a block read of its panel, if that may not be
  // in a near cache.
  void PrefetchPanel(const DownBlock& block, int first, int last) const {
    if (rows_.panel_bytes() <= kCachedPanelBytes) return;
    const int64_t bytes = block.rows * D::PanelRowBytes(block.w) / slices_;
    const std::byte* panel = rows_.panel(block);
    for (int64_t i = first * bytes; i < last * bytes; i += 64)
      __builtin_prefetch(panel + i);
  }

  // The beginning of the next matrix's tiles.
  void PrefetchHead(const DownBlock& block) const {
    const std::byte* head = block.next + first_tile_ * block.w.tile_bytes;
    for (int64_t i = 0; i < kHeadBytes; i += 64) __builtin_prefetch(head + i);
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
    const int64_t max_tiles =
        Max(1, kPlaneFloats / (tokens * slices * kTileOutputs));
    const int64_t pieces = Max(1, w.matrix_bytes / kPieceBytes);
    const int64_t parts =
        Min(tiles, Max(CeilDiv(tiles, max_tiles),
                       Min(pieces, PartsForThreads(pool, bytes, work, 1))));
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
