#ifndef PHALANX_WORKER_BENCH_WORK_H_
#define PHALANX_WORKER_BENCH_WORK_H_

#include <array>

#include "worker/bench/product_table.h"

namespace phalanx {

// What some passes asked of one rank, counted as its ops ran. Sums are doubles,
// exact to 2^53, so that they average.
struct Work {
  ProductTable products;
  // Read of keys, values and states: each position and state once a step.
  double cache_bytes = 0;
  double experts = 0;        // That got a token, summed over layers.
  double expert_layers = 0;  // Layers that chose, summed over steps.
  double hits = 0;           // Lookups, in offload.
  double fetches = 0;        // Lookups that did not hit.
  double fetched_bytes = 0;  // Prefetched ones included.

  double weight_bytes() const { return products.bytes(); }
  double read_bytes() const { return weight_bytes() + cache_bytes; }
  double flops() const { return products.flops(); }
};

// Every field of Work beside its products, for whoever sends it.
inline constexpr std::array<double Work::*, 6> kWorkFields = {
    &Work::cache_bytes, &Work::experts, &Work::expert_layers,
    &Work::hits,        &Work::fetches, &Work::fetched_bytes};

}  // namespace phalanx

#endif  // PHALANX_WORKER_BENCH_WORK_H_
