#include "tests/kernels/op_programs.h"

#include <numeric>

namespace phalanx {

std::vector<OpProgram> OpPrograms() {
  std::vector<OpProgram> all;
  for (const auto& group :
       {RowPrograms(), ProductPrograms(), SequencePrograms()}) {
    all.insert(all.end(), group.begin(), group.end());
  }
  return all;
}

std::vector<int64_t> Range(int64_t first, int64_t count) {
  std::vector<int64_t> items(count);
  std::iota(items.begin(), items.end(), first);
  return items;
}

Floats ItemRows(uint64_t seed, const std::vector<int64_t>& items,
                int64_t width) {
  Floats rows;
  for (int64_t item : items) {
    const Floats row = Noise(seed * 1000 + item, width);
    rows.insert(rows.end(), row.begin(), row.end());
  }
  return rows;
}

std::vector<Parts> Split(const Floats& values, size_t items) {
  std::vector<Parts> split;
  const size_t width = items == 0 ? 0 : values.size() / items;
  for (size_t i = 0; i < items; ++i) {
    split.push_back(
        {Floats(values.begin() + i * width, values.begin() + (i + 1) * width)});
  }
  return split;
}

double Chain(int64_t n) { return (n + 8) * 0x1p-24; }

Floats WeightNoise(uint64_t seed, int64_t count, int64_t cols) {
  float scale = 1;
  while (scale * scale * cols > 1) scale /= 2;
  Floats values = Noise(seed, count);
  for (float& value : values) value *= scale;
  return values;
}

}  // namespace phalanx
