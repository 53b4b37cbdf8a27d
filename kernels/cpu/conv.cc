// The causal depthwise convolution of the gated delta net. A block of channels
// walks through its sequence's rows, so the state needs no lock and the taps
// stay in L1.

#include <cstring>

#include "common/check.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vec.h"

namespace phalanx::PHALANX_ISA {
namespace {

// Channels of one piece of work: two cache lines of each bf16 row.
constexpr int64_t kBlock = 64;

// The family has 4; the arrays below are sized by this.
constexpr int64_t kMaxWidth = 16;

// Rough cost for ForRanges, mostly of the SiLU.
constexpr double kNsPerElement = 0.6;

struct Block {
  int64_t first_channel;
  int64_t channels;  // kBlock or, at the end, fewer.
  int64_t width;     // W
  alignas(64) float taps[kMaxWidth][kBlock];
  // The rows before the first one, oldest first.
  alignas(64) uint16_t before[kMaxWidth - 1][kBlock];
};

void LoadTaps(const float* w, Block& block) {
  const float* first = w + block.first_channel * block.width;
  for (int64_t j = 0; j < block.width; ++j) {
    for (int64_t i = 0; i < block.channels; ++i)
      block.taps[j][i] = first[i * block.width + j];
    for (int64_t i = block.channels; i < kBlock; ++i) block.taps[j][i] = 0.0f;
  }
}

// Raw row `index` of the sequence, counted from its first row of this step.
const uint16_t* RawRow(const Block& block, const Tensor& x, int64_t index) {
  if (index < 0) return block.before[index + block.width - 1];
  return x.row<uint16_t>(index) + block.first_channel;
}

void ConvolveRow(const Block& block, const Tensor& x, int64_t t, float* y) {
  const uint16_t* rows[kMaxWidth];
  for (int64_t j = 0; j < block.width; ++j)
    rows[j] = RawRow(block, x, t - (block.width - 1) + j);
  for (int64_t i = 0; i < block.channels; i += kLanes) {
    const int64_t n = block.channels - i;
    F32x16 sum = Zero();
    for (int64_t j = 0; j < block.width; ++j)
      sum = Fma(Load(&block.taps[j][i]), LoadPart(rows[j] + i, n), sum);
    StorePart(y + i, Silu(sum), n);
  }
}

// Rows x of one sequence; history [W - 1, C] is its state.
void ConvolveBlock(Block& block, const Tensor& x, bool fresh, int64_t channels,
                   uint16_t* history, const Tensor& y) {
  const int64_t kept = block.width - 1;
  const size_t bytes = block.channels * sizeof(uint16_t);
  uint16_t* state = history + block.first_channel;
  for (int64_t i = 0; i < kept; ++i) {
    if (fresh)
      std::memset(block.before[i], 0, bytes);
    else
      std::memcpy(block.before[i], state + i * channels, bytes);
  }
  for (int64_t t = 0; t < x.dims[0]; ++t)
    ConvolveRow(block, x, t, y.row<float>(t) + block.first_channel);
  for (int64_t i = 0; i < kept; ++i)
    std::memcpy(state + i * channels, RawRow(block, x, x.dims[0] - kept + i),
                bytes);
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
