// The choice of experts.

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/op_checks.h"
#include "kernels/reference/reference_ops.h"

namespace phalanx {
namespace {

// The k largest, ties to the lower index, in ascending order of index.
std::vector<int32_t> Largest(const float* logits, int64_t count, int64_t k) {
  std::vector<bool> taken(count, false);
  for (int64_t j = 0; j < k; ++j) {
    int64_t best = -1;
    for (int64_t e = 0; e < count; ++e) {
      if (!taken[e] && (best < 0 || logits[e] > logits[best])) best = e;
    }
    taken[best] = true;
  }
  std::vector<int32_t> chosen;
  for (int64_t e = 0; e < count; ++e) {
    if (taken[e]) chosen.push_back(static_cast<int32_t>(e));
  }
  return chosen;
}

void RouteRow(const float* logits, int64_t E, int64_t K, bool renormalise,
              int32_t* expert, float* weight) {
  const std::vector<int32_t> chosen = Largest(logits, E, K);
  const double top = *std::max_element(logits, logits + E);
  double total = 0, chosen_total = 0;
  for (int64_t e = 0; e < E; ++e) total += std::exp(logits[e] - top);
  for (int32_t e : chosen) chosen_total += std::exp(logits[e] - top);
  for (int64_t j = 0; j < K; ++j) {
    expert[j] = chosen[j];
    weight[j] = static_cast<float>(std::exp(logits[chosen[j]] - top) /
                                   (renormalise ? chosen_total : total));
  }
}

}  // namespace

void ReferenceOps::Route(Tensor logits, bool renormalise, Routing routing) {
  CheckRoute(logits, routing);
  const int64_t T = logits.dims[0], E = logits.dims[1];
  const int64_t K = routing.expert.dims[1];
  std::vector<std::vector<int32_t>> entries(E);
  for (int64_t t = 0; t < T; ++t) {
    int32_t* expert = routing.expert.row<int32_t>(t);
    RouteRow(logits.row<float>(t), E, K, renormalise, expert,
             routing.weight.row<float>(t));
    for (int64_t j = 0; j < K; ++j)
      entries[expert[j]].push_back(static_cast<int32_t>(t * K + j));
  }
  auto* offsets = static_cast<int32_t*>(routing.offsets.data);
  auto* order = static_cast<int32_t*>(routing.order.data);
  offsets[0] = 0;
  for (int64_t e = 0; e < E; ++e) {
    std::copy(entries[e].begin(), entries[e].end(), order + offsets[e]);
    offsets[e + 1] = offsets[e] + static_cast<int32_t>(entries[e].size());
  }
}

}  // namespace phalanx
