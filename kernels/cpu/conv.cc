// The causal depthwise convolution of the gated delta net. A block of channels
// walks through its sequence's rows, so the state needs no lock and the taps
// stay in L1. Rows are read where they lie, in x or in the state.

#include <algorithm>
#include <cstring>

#include "common/check.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vec.h"

namespace phalanx::PHALANX_ISA {
namespace {

// Channels of one piece of work: long enough a stretch of each row for the
// prefetcher, few enough for all rows and taps of kTogether to stay in L1.
constexpr int64_t kBlock = 256;

// Rows that are computed side by side, which share taps and inputs and hide the
// latency of each other's SiLU.
constexpr int64_t kTogether = 4;

// The family has 4; the arrays below are sized by this.
constexpr int64_t kMaxWidth = 16;
constexpr int kUsualWidth = 4;

// Rough cost for ForRanges, mostly of the SiLU.
constexpr double kNsPerElement = 0.6;

struct Block {
  int64_t first_channel;
  int64_t channels;  // kBlock or, at the end, fewer.
  int64_t width;     // W
  alignas(64) float taps[kMaxWidth][kBlock];
};

// What a fresh sequence's rows before the first are.
alignas(64) constexpr uint16_t kZeros[kBlock] = {};

// Sixteen lanes as GCC knows them, to be shuffled.
using Lanes = float __attribute__((vector_size(64)));
using LaneIds = int32_t __attribute__((vector_size(64)));

// Taps of sixteen channels, [16, 4] to [4, 16].
void TurnFourTaps(const float* w, float (*taps)[kBlock], int64_t column) {
  Lanes in[4];
  std::memcpy(in, w, sizeof(in));
  // Two taps of the first, or the last, eight channels.
  constexpr LaneIds kTaps01 = {0, 4, 8, 12, 16, 20, 24, 28,
                               1, 5, 9, 13, 17, 21, 25, 29};
  const LaneIds taps23 = kTaps01 + 2;
  constexpr LaneIds kLowHalves = {0,  1,  2,  3,  4,  5,  6,  7,
                                  16, 17, 18, 19, 20, 21, 22, 23};
  const LaneIds high_halves = kLowHalves + 8;
  const Lanes low01 = __builtin_shuffle(in[0], in[1], kTaps01);
  const Lanes high01 = __builtin_shuffle(in[2], in[3], kTaps01);
  const Lanes low23 = __builtin_shuffle(in[0], in[1], taps23);
  const Lanes high23 = __builtin_shuffle(in[2], in[3], taps23);
  const Lanes out[4] = {__builtin_shuffle(low01, high01, kLowHalves),
                        __builtin_shuffle(low01, high01, high_halves),
                        __builtin_shuffle(low23, high23, kLowHalves),
                        __builtin_shuffle(low23, high23, high_halves)};
  for (int j = 0; j < 4; ++j)
    std::memcpy(&taps[j][column], &out[j], sizeof(out[j]));
}

void LoadTaps(const float* w, Block& block) {
  const float* first = w + block.first_channel * block.width;
  int64_t i = 0;
  if (block.width == kUsualWidth)
    for (; i + kLanes <= block.channels; i += kLanes)
      TurnFourTaps(first + i * kUsualWidth, block.taps, i);
  for (; i < block.channels; ++i)
    for (int64_t j = 0; j < block.width; ++j)
      block.taps[j][i] = first[i * block.width + j];
  for (; i % kLanes != 0; ++i)
    for (int64_t j = 0; j < block.width; ++j) block.taps[j][i] = 0.0f;
}

// kRows neighbouring rows of y. rows: the W - 1 raw rows before the first one
// and theirs. kWidth is W where it is known, else 0.
template <int kRows, int kWidth>
void ConvolveRows(const Block& block, const uint16_t* const* rows,
                  float* const* y) {
  const int64_t width = kWidth > 0 ? kWidth : block.width;
  const auto step = [&](int64_t i, const auto& load, const auto& store) {
    F32x16 sums[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) sums[r] = Zero();
#pragma GCC unroll 4
    for (int64_t j = 0; j < width; ++j) {
      const F32x16 tap = Load(&block.taps[j][i]);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r)
        sums[r] = Fma(tap, load(rows[r + j] + i), sums[r]);
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) store(y[r] + i, Silu(sums[r]));
  };
  int64_t i = 0;
  for (; i + kLanes <= block.channels; i += kLanes)
    step(
        i, [](const uint16_t* x) { return Load(x); },
        [](float* out, F32x16 value) { Store(out, value); });
  const int64_t left = block.channels - i;
  if (left > 0)
    step(
        i, [&](const uint16_t* x) { return LoadTail(x, left); },
        [&](float* out, F32x16 value) { StoreTail(out, value, left); });
}

template <int kRows>
void ConvolveRows(const Block& block, const uint16_t* const* rows,
                  float* const* y) {
  if (block.width == kUsualWidth)
    ConvolveRows<kRows, kUsualWidth>(block, rows, y);
  else
    ConvolveRows<kRows, 0>(block, rows, y);
}

// Rows x of one sequence; history [W - 1, C] is its state.
void ConvolveBlock(const Block& block, const Tensor& x, bool fresh,
                   int64_t channels, uint16_t* history, const Tensor& y) {
  const int64_t kept = block.width - 1;
  const int64_t count = x.dims[0];
  uint16_t* state = history + block.first_channel;
  // Raw row `index` of the sequence, counted from its first row of this step.
  const auto raw_row = [&](int64_t index) -> const uint16_t* {
    if (index >= 0) return x.row<uint16_t>(index) + block.first_channel;
    return fresh ? kZeros : state + (index + kept) * channels;
  };
  for (int64_t t = 0; t < count;) {
    const int64_t together = count - t >= kTogether ? kTogether : 1;
    const uint16_t* rows[kMaxWidth + kTogether];
    float* out[kTogether];
    for (int64_t i = 0; i < kept + together; ++i)
      rows[i] = raw_row(t - kept + i);
    for (int64_t r = 0; r < together; ++r)
      out[r] = y.row<float>(t + r) + block.first_channel;
    if (together == kTogether)
      ConvolveRows<kTogether>(block, rows, out);
    else
      ConvolveRows<1>(block, rows, out);
    t += together;
  }
  // Each row comes from a later one or from x, so none is lost.
  for (int64_t i = 0; i < kept; ++i)
    std::memcpy(state + i * channels, raw_row(count - kept + i),
                block.channels * sizeof(uint16_t));
}

}  // namespace

void ConvSilu(ThreadPool& pool, Tensor x, Tensor w, const Sequences& sequences,
              Tensor state, Tensor y) {
  CHECK(w.dims[1] <= kMaxWidth);
  const int64_t channels = x.dims[1];
  const int64_t blocks = (channels + kBlock - 1) / kBlock;
  const int64_t count = sequences.count();
  const int32_t* first_row = sequences.first_row.row<int32_t>(0);
  if (x.dims[0] == 0) return;
  const double work = static_cast<double>(x.dims[0]) * channels * kNsPerElement;
  ForRanges(
      pool, count * blocks, work / (count * blocks),
      [&](int64_t first, int64_t last) {
        Block block;
        block.width = w.dims[1];
        int64_t loaded = -1;  // The channels whose taps are in the block.
        for (int64_t piece = first; piece < last; ++piece) {
          const int64_t s = piece % count;
          const int64_t rows = first_row[s + 1] - first_row[s];
          if (rows == 0) continue;
          block.first_channel = piece / count * kBlock;
          block.channels = std::min(kBlock, channels - block.first_channel);
          if (block.first_channel != loaded) LoadTaps(w.row<float>(0), block);
          loaded = block.first_channel;
          ConvolveBlock(
              block, Rows(x, first_row[s], rows),
              sequences.past.row<int32_t>(0)[s] == 0, channels,
              state.row<uint16_t>(sequences.state_slot.row<int32_t>(0)[s]),
              Rows(y, first_row[s], rows));
        }
      });
}

}  // namespace phalanx::PHALANX_ISA
