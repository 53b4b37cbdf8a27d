#include "worker/bench/samples.h"

#include <algorithm>

namespace phalanx {

std::optional<double> Median(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  if (values.size() % 2 == 1) return values[middle];
  return (values[middle - 1] + values[middle]) / 2;
}

double MovedBy(const Roofs& before, const Roofs& after) {
  double most = 0;
  for (const auto roof : kRoofFields) {
    const double low = std::min(before.*roof, after.*roof);
    if (low > 0)
      most = std::max(most, std::max(before.*roof, after.*roof) / low - 1);
  }
  return most;
}

}  // namespace phalanx
