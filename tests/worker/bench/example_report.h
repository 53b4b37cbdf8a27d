#ifndef PHALANX_TESTS_WORKER_BENCH_EXAMPLE_REPORT_H_
#define PHALANX_TESTS_WORKER_BENCH_EXAMPLE_REPORT_H_

#include <optional>

#include "worker/bench/model_report.h"

// A bench of a model whose figures are round.
namespace phalanx {

// Those of n passes: a dense one that its bytes bind, for 0.3 s on that
// machine, and a head that its operations bind, for 0.4 s.
inline ProductTable Products(double n) {
  ProductTable products;
  products.Add({.part = Part::kDense,
                .peak = Peak::kBf16,
                .bytes = 600 * n,
                .flops = 400 * n});
  products.Add({.part = Part::kHead,
                .peak = Peak::kBf16,
                .bytes = 300 * n,
                .flops = 1600 * n});
  return products;
}

// Passes that read 900 bytes of weights and 100 of caches and do 2000
// operations a pass, on a machine that reads 2000 bytes and does 4000
// operations a second.
inline ModelSample SampleOf(int64_t passes, double seconds) {
  const double n = static_cast<double>(passes);
  return {.run = {.passes = passes,
                  .seconds = seconds,
                  .work = {.products = Products(n),
                           .cache_bytes = 100 * n,
                           .experts = 20 * n,
                           .expert_layers = 4 * n,
                           .hits = 3 * n,
                           .fetches = 1 * n,
                           .fetched_bytes = 80 * n},
                  .parts = {}},
          .tp1 = std::nullopt,
          .roofs = {.read = 2000, .bf16_dot = 4000}};
}

inline PartSeconds Parts(double dense, double head, double gdn) {
  PartSeconds parts = {};
  parts[static_cast<size_t>(Part::kDense)] = dense;
  parts[static_cast<size_t>(Part::kHead)] = head;
  parts[static_cast<size_t>(Part::kGdn)] = gdn;
  return parts;
}

// Four sequences that decode, a second a step, in a model of 4 layers.
inline ModelReport Report() {
  ModelReport report;
  report.model_dir = "model";
  report.processor = "A processor";
  report.layers = 4;
  report.facts.weights = WeightFormat::kBf16;
  report.facts.moe_mode = "resident";
  report.facts.planned_bytes = 1000;
  report.peak_bytes = 1100;
  report.cases = {
      {.c = {CaseKind::kDecode, 4, 0},
       .count = {.kept = 3, .thrown = 1},
       .samples = {SampleOf(2, 1.8), SampleOf(2, 2), SampleOf(2, 2.4)},
       .timed = {.passes = 1,
                 .seconds = 1,
                 .work = {},
                 .parts = Parts(0.5, 0.2, 0.1)}}};
  return report;
}

}  // namespace phalanx

#endif  // PHALANX_TESTS_WORKER_BENCH_EXAMPLE_REPORT_H_
