#ifndef PHALANX_WORKER_BENCH_PRODUCT_TABLE_H_
#define PHALANX_WORKER_BENCH_PRODUCT_TABLE_H_

#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "worker/bench/part.h"
#include "worker/bench/roofs.h"

namespace phalanx {

// A product of some rows with one matrix of weights, or several alike.
struct Product {
  Part part = Part::kDense;
  Peak peak = Peak::kNone;
  double bytes = 0;  // Of the matrix, read once, without padding; above 0.
  double flops = 0;  // Two a multiply-add.

  bool operator==(const Product&) const = default;
};

// What passes asked of the machine with weights, product by product, so that
// the least time for it can be told once the machine's limits are known: each
// product is bound by its own bytes or its own operations, whichever take
// longer. Products of one part, peak and intensity (operations a byte) are
// bound alike on any machine, so they are one entry, and nothing is lost: a
// case comes to tens of entries, a long prefill to hundreds, as many as there
// are numbers of tokens that an expert got. One thread's.
class ProductTable {
 public:
  void Add(const Product& product);

  // A sum for each part, peak and intensity; adding them to another table adds
  // the tables.
  std::vector<Product> entries() const;

  double bytes() const;
  double flops() const;

  // The sum over products of the least time that each takes on such a machine.
  // None where it has no instruction for one of them.
  std::optional<PartSeconds> LeastSeconds(const Roofs& roofs) const;

 private:
  // Part, peak, and operations a byte.
  using Kind = std::tuple<Part, Peak, double>;

  std::map<Kind, Product> sums_;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_BENCH_PRODUCT_TABLE_H_
