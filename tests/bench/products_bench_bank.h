#ifndef PHALANX_TESTS_BENCH_PRODUCTS_BENCH_BANK_H_
#define PHALANX_TESTS_BENCH_PRODUCTS_BENCH_BANK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/ops.h"
#include "kernels/packed_weight.h"

namespace phalanx {

// One product at one number of tokens.
struct ProductCase {
  std::string name;
  int64_t tokens = 0;
  // Of one run: what must be read, each expert that is touched once, and the
  // operations, a multiply-add counting two.
  double bytes = 0;
  double flops = 0;
  // Runs with other weights, or another routing, than the turn before.
  std::function<void(Ops&, int64_t turn)> run;
};

// The products of a 35B-A3B layer and its head, with weights that no cache
// holds (3.6 GB). Weights belong to `backend`, which must outlive the bank;
// another backend of the same family may run the cases. One thread at a time.
class ProductBank {
 public:
  explicit ProductBank(Backend& backend);
  ProductBank(const ProductBank&) = delete;
  ProductBank& operator=(const ProductBank&) = delete;

  const std::vector<ProductCase>& cases() const { return cases_; }
  // Weights to measure the read bandwidth on: 1 GiB.
  const PackedWeight& largest() const { return experts_gate_up_; }

 private:
  struct Routes;
  using RouteList = std::shared_ptr<std::vector<Routes>>;

  PackedWeight Weight(const WeightShape& shape);
  std::vector<PackedWeight> Weights(int64_t count, const WeightShape& shape);
  void AddMatMul(const std::string& name,
                 const std::vector<PackedWeight>& weights, int64_t tokens,
                 int slices);
  void AddExpertsGateUp(int64_t tokens);
  void AddExpertsDown(const std::string& name, int64_t tokens,
                      const PackedWeight& down, const PackedWeight& shared,
                      int slices);
  static RouteList RoutesOf(int64_t tokens);
  static double Touched(const RouteList& routes);

  Backend& backend_;
  std::vector<uint16_t> random_;  // Rows of x and of weights.
  std::vector<float> out_;
  std::vector<PackedWeight> dense_, mixed_, router_, small_, head_;
  PackedWeight experts_gate_up_, experts_down_, shared_down_;
  PackedWeight half_down_, half_shared_down_;  // A rank's of two.
  std::vector<ProductCase> cases_;
};

}  // namespace phalanx

#endif  // PHALANX_TESTS_BENCH_PRODUCTS_BENCH_BANK_H_
