#include "worker/bench/samples.h"

#include <algorithm>
#include <array>

namespace phalanx {
namespace {

constexpr std::array<double Roofs::*, 4> kRoofs = {
    &Roofs::read, &Roofs::f32_fma, &Roofs::bf16_dot, &Roofs::int8_dot};

}  // namespace

std::optional<double> Median(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  if (values.size() % 2 == 1) return values[middle];
  return (values[middle - 1] + values[middle]) / 2;
}

double MovedBy(const Roofs& before, const Roofs& after) {
  double most = 0;
  for (const auto roof : kRoofs) {
    const double low = std::min(before.*roof, after.*roof);
    if (low > 0)
      most = std::max(most, std::max(before.*roof, after.*roof) / low - 1);
  }
  return most;
}

Roofs MeanOf(const Roofs& a, const Roofs& b) {
  Roofs mean;
  for (const auto roof : kRoofs) mean.*roof = (a.*roof + b.*roof) / 2;
  return mean;
}

}  // namespace phalanx
