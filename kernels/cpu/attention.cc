// Attention over the paged cache: how the work is cut into tiles and segments
// and handed to threads. The arithmetic is in attention_tile.cc.

#include <algorithm>
#include <cstring>

#include "common/check.h"
#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/scratch.h"

namespace phalanx::PHALANX_ISA {
namespace {

// Queries that share one pass over the keys. With D = 256 their widened copies,
// outputs and scores of a segment take 300 KiB, which stays in L2.
constexpr int64_t kTileQueries = 64;

// Queries whose segments wait to be merged, per thread: enough to share out
// evenly, and the bound of the memory that waits (D = 256: 1.1 KiB each).
constexpr int64_t kWaitingQueriesPerThread = 4 * kTileQueries;

// Rough costs for ForRanges: of one product and sum of an element of a key and
// of a value with a query's, and of a copied element.
constexpr double kNsPerElement = 0.08;
constexpr double kNsPerCopiedElement = 0.1;

struct Attention {
  const AttentionKernels& kernels;
  AttentionShape shape;
  Tensor q, keys, values, y;
  const Sequences& sequences;
  int64_t tile_rows;

  int64_t first_row(int64_t s) const {
    return sequences.first_row.row<int32_t>(0)[s];
  }
  int64_t rows(int64_t s) const { return first_row(s + 1) - first_row(s); }
  int64_t past(int64_t s) const { return sequences.past.row<int32_t>(0)[s]; }
  int64_t Tiles(int64_t s) const {
    return (rows(s) + tile_rows - 1) / tile_rows * shape.kv_heads;
  }
  int64_t queries() const { return tile_rows * shape.group(); }
  int64_t part_floats() const {
    return AttentionPart::Floats(queries(), shape.padded());
  }
  AttentionPart PartAt(float* memory, int64_t index) const {
    return AttentionPart::In(memory + index * part_floats(), queries(),
                             shape.padded());
  }
};

// What a step's attention amounts to.
struct Workload {
  int64_t tiles = 0;
  int64_t most_segments = 0;
  double ns = 0;
};

Workload MeasureWork(const Attention& a) {
  Workload work;
  for (int64_t s = 0; s < a.sequences.count(); ++s) {
    const int64_t rows = a.rows(s);
    if (rows == 0) continue;
    const int64_t positions = a.past(s) + rows;
    work.tiles += a.Tiles(s);
    work.most_segments =
        std::max(work.most_segments, (positions + kAttentionSegmentTokens - 1) /
                                         kAttentionSegmentTokens);
    work.ns += static_cast<double>(rows) * positions * a.shape.heads *
               a.shape.padded() * kNsPerElement;
  }
  return work;
}

AttentionTile TileAt(const Attention& a, int64_t index) {
  int64_t s = 0;
  for (; index >= a.Tiles(s); ++s) index -= a.Tiles(s);
  const int64_t skipped = index / a.shape.kv_heads * a.tile_rows;
  return {.sequence = s,
          .kv_head = index % a.shape.kv_heads,
          .first_row = a.first_row(s) + skipped,
          .rows = std::min(a.tile_rows, a.rows(s) - skipped),
          .first_position = a.past(s) + skipped};
}

int64_t SegmentCount(const AttentionTile& tile) {
  return tile.last_position() / kAttentionSegmentTokens + 1;
}

AttentionRoom RoomIn(const Attention& a, float* memory) {
  return AttentionRoom::In(memory, a.queries(), a.shape.padded());
}

int64_t RoomFloats(const Attention& a) {
  return AttentionRoom::Floats(a.queries(), a.shape.padded());
}

// One thread takes a tile through all its segments.
void AttendTile(const Attention& a, int64_t index) {
  static thread_local Scratch scratch;
  float* memory = scratch.Get(RoomFloats(a) + 2 * a.part_floats());
  const AttentionPart part = a.PartAt(memory, 0);
  const AttentionPart total = a.PartAt(memory, 1);
  const AttentionRoom room = RoomIn(a, memory + 2 * a.part_floats());
  const AttentionTile tile = TileAt(a, index);
  a.kernels.load_queries(a.shape, tile, a.q, room);
  for (int64_t segment = 0; segment < SegmentCount(tile); ++segment) {
    a.kernels.attend_segment(a.shape, tile, a.keys, a.values, a.sequences,
                             segment, room, part);
    MergeSegment(a.shape, tile, segment, part, total);
  }
  StoreOutput(a.shape, tile, total, a.y);
}

// Few tiles, long contexts: threads share the segments of each tile, a wave at
// a time, and the parts are merged from left to right after each wave.
void AttendBySegments(ThreadPool& pool, const Attention& a,
                      const Workload& work) {
  static thread_local Scratch scratch;
  const int64_t waiting =
      kWaitingQueriesPerThread * pool.threads() / a.queries();
  const int64_t wave =
      std::clamp<int64_t>(waiting / work.tiles, 1, work.most_segments);
  float* totals = scratch.Get(work.tiles * (wave + 1) * a.part_floats());
  float* parts = totals + work.tiles * a.part_floats();
  for (int64_t first = 0; first < work.most_segments; first += wave) {
    pool.ParallelFor(work.tiles * wave, [&](int64_t unit) {
      static thread_local Scratch room_scratch;
      const AttentionTile tile = TileAt(a, unit / wave);
      const int64_t segment = first + unit % wave;
      if (segment >= SegmentCount(tile)) return;
      const AttentionRoom room = RoomIn(a, room_scratch.Get(RoomFloats(a)));
      a.kernels.load_queries(a.shape, tile, a.q, room);
      a.kernels.attend_segment(a.shape, tile, a.keys, a.values, a.sequences,
                               segment, room, a.PartAt(parts, unit));
    });
    pool.ParallelFor(work.tiles, [&](int64_t index) {
      const AttentionTile tile = TileAt(a, index);
      const int64_t end = std::min(first + wave, SegmentCount(tile));
      for (int64_t segment = first; segment < end; ++segment)
        MergeSegment(a.shape, tile, segment,
                     a.PartAt(parts, index * wave + segment - first),
                     a.PartAt(totals, index));
    });
  }
  for (int64_t index = 0; index < work.tiles; ++index)
    StoreOutput(a.shape, TileAt(a, index), a.PartAt(totals, index), a.y);
}

}  // namespace

void StoreKv(ThreadPool& pool, Tensor k, Tensor v, Tensor places, Tensor keys,
             Tensor values) {
  const int64_t heads = k.dims[1];
  const int64_t size = k.dims[2];
  const int32_t* place = places.row<int32_t>(0);
  const auto store = [&](const Tensor& from, int64_t t, const Tensor& to) {
    const int64_t block = place[t] / kKvBlockTokens;
    CHECK(place[t] >= 0 && block < to.dims[0]);
    uint16_t* out = to.row<uint16_t>(block) + place[t] % kKvBlockTokens * size;
    for (int64_t h = 0; h < heads; ++h)
      std::memcpy(out + h * kKvBlockTokens * size,
                  from.row<uint16_t>(t) + h * size, size * sizeof(uint16_t));
  };
  ForRanges(pool, k.dims[0], 2 * heads * size * kNsPerCopiedElement,
            [&](int64_t first, int64_t last) {
              for (int64_t t = first; t < last; ++t) {
                store(k, t, keys);
                store(v, t, values);
              }
            });
}

void PagedAttention(ThreadPool& pool, Tensor q, Tensor keys, Tensor values,
                    const Sequences& sequences, float scale, Tensor y) {
  PagedAttentionBy(FmaAttention(), pool, q, keys, values, sequences, scale, y);
}

void PagedAttentionBy(const AttentionKernels& kernels, ThreadPool& pool,
                      Tensor q, Tensor keys, Tensor values,
                      const Sequences& sequences, float scale, Tensor y) {
  Attention a = {.kernels = kernels,
                 .shape = {.heads = q.dims[1],
                           .kv_heads = keys.dims[1],
                           .head_size = q.dims[2],
                           .scale = scale},
                 .q = q,
                 .keys = keys,
                 .values = values,
                 .y = y,
                 .sequences = sequences,
                 .tile_rows = 1};
  a.tile_rows = std::clamp<int64_t>(kTileQueries / a.shape.group(), 1,
                                    std::max<int64_t>(q.dims[0], 1));
  const Workload work = MeasureWork(a);
  if (work.tiles == 0) return;
  if (pool.threads() == 1 || work.ns < 2 * kSmallestPieceNs) {
    for (int64_t i = 0; i < work.tiles; ++i) AttendTile(a, i);
    return;
  }
  if (work.tiles < 2 * pool.threads() && work.most_segments > 1) {
    AttendBySegments(pool, a, work);
    return;
  }
  // Later tiles see more, so they go first.
  pool.ParallelFor(work.tiles,
                   [&](int64_t i) { AttendTile(a, work.tiles - 1 - i); });
}

}  // namespace phalanx::PHALANX_ISA
