#include "worker/bench/roofs.h"

#include <algorithm>

namespace phalanx {

Roofs MeanOf(const Roofs& a, const Roofs& b) {
  Roofs mean;
  for (const auto roof : kRoofFields) mean.*roof = (a.*roof + b.*roof) / 2;
  return mean;
}

Roofs CompletedBy(const Roofs& looked, const Roofs& other) {
  Roofs all = looked;
  for (const auto roof : kRoofFields)
    if (all.*roof == 0) all.*roof = other.*roof;
  return all;
}

Peak PeakFor(WeightFormat format) {
  return format == WeightFormat::kBf16 ? Peak::kBf16 : Peak::kInt8;
}

double PeakOf(Peak peak, const Roofs& roofs) {
  switch (peak) {
    case Peak::kF32:
      return roofs.f32_fma;
    case Peak::kBf16:
      return roofs.bf16_peak();
    case Peak::kInt8:
      return roofs.int8_dot;
    case Peak::kNone:
      return 0;
  }
  return 0;
}

std::optional<double> LeastSeconds(double bytes, double flops, Peak peak,
                                   const Roofs& roofs) {
  const double reading = roofs.read > 0 ? bytes / roofs.read : 0;
  if (peak == Peak::kNone) return reading;
  const double most = PeakOf(peak, roofs);
  if (most == 0) return std::nullopt;
  return std::max(reading, flops / most);
}

}  // namespace phalanx
