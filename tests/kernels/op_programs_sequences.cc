// Ops that look along a sequence. An item is a whole sequence: its past, as the
// caches hold it, and its rows of this step.

#include <cmath>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/kernels/op_programs.h"
#include "tests/kernels/ops_contract.h"
#include "tests/kernels/sequence_set.h"

namespace phalanx {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Lengths and pasts around every boundary: the window of a convolution, a
// block of 64, a segment of 256.
const std::vector<SequenceSpec> kSequences = {
    {1, 0}, {5, 62}, {3, 2}, {18, 250}, {2, 0}, {70, 0}, {1, 600}, {1, 1}};

std::vector<SequenceSpec> Specs(const std::vector<int64_t>& items) {
  std::vector<SequenceSpec> specs;
  for (int64_t item : items) specs.push_back(kSequences[item]);
  return specs;
}

// `width` numbers for each position in [from, to) of an item.
void AppendPositions(uint64_t seed, int64_t item, int64_t from, int64_t to,
                     int64_t width, Floats& rows) {
  for (int64_t i = from * width; i < to * width; ++i)
    rows.push_back(NoiseAt(seed * 1000 + item, i));
}

// The rows of this step.
Floats StepRows(uint64_t seed, const std::vector<int64_t>& items,
                int64_t width) {
  Floats rows;
  for (int64_t item : items) {
    const auto [length, past] = kSequences[item];
    AppendPositions(seed, item, past, past + length, width, rows);
  }
  return rows;
}

// Cuts rows of a step into the items'.
std::vector<Parts> SplitSteps(const Floats& values,
                              const std::vector<int64_t>& items,
                              int64_t width) {
  std::vector<Parts> split;
  auto at = values.begin();
  for (int64_t item : items) {
    const auto end = at + kSequences[item].length * width;
    split.push_back({Floats(at, end)});
    at = end;
  }
  return split;
}

// Adds what each item's slot of `state` holds now as a further part.
void AppendStates(Rig& rig, const SequenceSet& set, Tensor state,
                  std::vector<Parts>& results) {
  const Floats values = rig.Read(state);
  const int64_t width = state.row_elements();
  for (size_t i = 0; i < results.size(); ++i) {
    const auto at = values.begin() + set.slots[i] * width;
    results[i].push_back(Floats(at, at + width));
  }
}

// Slots of state as each item's past left them; all else, fresh slots
// included, is garbage.
Floats States(uint64_t seed, const SequenceSet& set,
              const std::vector<int64_t>& items, int64_t width) {
  Floats states(set.slot_count * width, kNan);
  for (size_t i = 0; i < items.size(); ++i) {
    if (kSequences[items[i]].past == 0) continue;
    const Floats state = Noise(seed * 1000 + items[i], width);
    std::copy(state.begin(), state.end(),
              states.begin() + set.slots[i] * width);
  }
  return states;
}

OpProgram PagedAttention(int64_t Nq, int64_t Nk, int64_t D) {
  // Each probability is rounded for the product with the values: errors of up
  // to kBf16Rounding of each term of a sum of random sign, so of its RMS; 4
  // leaves room for the worst of many outputs.
  return {absl::StrCat("PagedAttention", Nq, "by", Nk, "x", D),
          static_cast<int64_t>(kSequences.size()),
          {{0, 4 * kBf16Rounding}},
          [=](Rig& rig, const std::vector<int64_t>& items) {
            const SequenceSet set(rig, Specs(items));
            PagedCache cache(set.block_count, Nk, D);
            for (size_t i = 0; i < items.size(); ++i) {
              const auto [length, past] = kSequences[items[i]];
              cache.Fill(set.blocks[i], past + length, 1000 + items[i]);
            }
            const Tensor y = rig.F32({set.rows, Nq, D});
            rig.ops().PagedAttention(
                rig.Act({set.rows, Nq, D}, StepRows(3, items, Nq * D)),
                rig.Act(cache.dims(), cache.keys),
                rig.Act(cache.dims(), cache.values), set.sequences,
                static_cast<float>(2 / std::sqrt(D)), y);
            return SplitSteps(rig.Read(y), items, Nq * D);
          }};
}

OpProgram ConvSilu(int64_t C, int64_t W) {
  // W products and a SiLU of their sum, whose terms may cancel.
  return {absl::StrCat("ConvSilu", C, "x", W),
          static_cast<int64_t>(kSequences.size()),
          {{16 * kF32Rounding, 16 * kF32Rounding}, {}},
          [=](Rig& rig, const std::vector<int64_t>& items) {
            const SequenceSet set(rig, Specs(items));
            const Tensor y = rig.F32({set.rows, C});
            const Tensor state = rig.Act({set.slot_count, W - 1, C},
                                         States(5, set, items, (W - 1) * C));
            rig.ops().ConvSilu(rig.Act({set.rows, C}, StepRows(4, items, C)),
                               rig.Param({C, W}, Noise(6, C * W)),
                               set.sequences, state, y);
            std::vector<Parts> results = SplitSteps(rig.Read(y), items, C);
            AppendStates(rig, set, state, results);
            return results;
          }};
}

// Each head divided by its length.
Floats UnitHeads(Floats rows, int64_t D, double scale) {
  for (size_t at = 0; at < rows.size(); at += D) {
    double sum = 1e-6;
    for (int64_t i = 0; i < D; ++i) sum += double{rows[at + i]} * rows[at + i];
    for (int64_t i = 0; i < D; ++i)
      rows[at + i] = static_cast<float>(rows[at + i] / std::sqrt(sum) * scale);
  }
  return rows;
}

OpProgram GatedDelta(int64_t Nk, int64_t Nv, int64_t Dk, int64_t Dv) {
  // Dots of Dk terms, carried through up to 70 tokens by a map that never
  // lengthens an error; the errors of the tokens add like a random walk.
  const Tolerance tolerance = {0, 2 * Chain(Dk) * std::sqrt(70.0)};
  return {
      absl::StrCat("GatedDelta", Nk, "by", Nv, "x", Dk, "x", Dv),
      static_cast<int64_t>(kSequences.size()),
      {tolerance, tolerance},
      [=](Rig& rig, const std::vector<int64_t>& items) {
        const SequenceSet set(rig, Specs(items));
        const int64_t T = set.rows;
        Floats g = StepRows(10, items, Nv), beta = StepRows(11, items, Nv);
        for (float& value : g) value = -std::abs(value);
        for (float& value : beta) value = (value + 1) / 2;
        const Tensor y = rig.F32({T, Nv, Dv});
        const Tensor state = rig.F32({set.slot_count, Nv, Dv, Dk},
                                     States(12, set, items, Nv * Dv * Dk));
        rig.ops().GatedDelta(
            rig.F32({T, Nk, Dk}, UnitHeads(StepRows(7, items, Nk * Dk), Dk,
                                           1 / std::sqrt(Dk))),
            rig.F32({T, Nk, Dk}, UnitHeads(StepRows(8, items, Nk * Dk), Dk, 1)),
            rig.F32({T, Nv, Dv}, StepRows(9, items, Nv * Dv)),
            rig.F32({T, Nv}, g), rig.F32({T, Nv}, beta), set.sequences, state,
            y);
        std::vector<Parts> results = SplitSteps(rig.Read(y), items, Nv * Dv);
        AppendStates(rig, set, state, results);
        return results;
      }};
}

}  // namespace

std::vector<OpProgram> SequencePrograms() {
  return {PagedAttention(4, 1, 64),
          PagedAttention(6, 2, 24),
          PagedAttention(2, 2, 256),
          ConvSilu(64, 4),
          ConvSilu(33, 4),
          ConvSilu(40, 2),
          GatedDelta(1, 2, 128, 128),
          GatedDelta(2, 6, 24, 24),
          GatedDelta(2, 2, 16, 8)};
}

}  // namespace phalanx
