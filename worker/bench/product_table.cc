#include "worker/bench/product_table.h"

#include "common/check.h"

namespace phalanx {

void ProductTable::Add(const Product& product) {
  CHECK(product.bytes > 0);
  // Alike for one product and for many: bytes and operations are whole numbers,
  // and their quotient is rounded once.
  const double intensity = product.flops / product.bytes;
  Product& sum = sums_[{product.part, product.peak, intensity}];
  sum.part = product.part;
  sum.peak = product.peak;
  sum.bytes += product.bytes;
  sum.flops += product.flops;
}

std::vector<Product> ProductTable::entries() const {
  std::vector<Product> all;
  for (const auto& [kind, sum] : sums_) all.push_back(sum);
  return all;
}

double ProductTable::bytes() const {
  double bytes = 0;
  for (const auto& [kind, sum] : sums_) bytes += sum.bytes;
  return bytes;
}

double ProductTable::flops() const {
  double flops = 0;
  for (const auto& [kind, sum] : sums_) flops += sum.flops;
  return flops;
}

std::optional<PartSeconds> ProductTable::LeastSeconds(
    const Roofs& roofs) const {
  PartSeconds least = {};
  for (const auto& [kind, sum] : sums_) {
    const std::optional<double> seconds =
        phalanx::LeastSeconds(sum.bytes, sum.flops, sum.peak, roofs);
    if (!seconds) return std::nullopt;
    least[static_cast<size_t>(sum.part)] += *seconds;
  }
  return least;
}

}  // namespace phalanx
