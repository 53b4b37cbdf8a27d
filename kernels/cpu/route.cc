// Which experts each token goes to, with what weights, and the tokens in order
// of expert.

#include <cstring>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vec.h"

namespace phalanx::PHALANX_ISA {
namespace {

// Rough cost for ForRanges.
constexpr double kNsPerLogit = 1.0;

// NaN counts as the lowest, so that every token gets experts whatever its
// logits are.
bool Above(float a, float b) { return a > b || (a == a && b != b); }

// The k largest logits' ids into top, largest first, ties to the lower id.
// Ids come in ascending order, so a later equal stays behind.
void SelectLargest(const float* logits, int64_t count, int64_t k,
                   int32_t* top) {
  int64_t held = 0;
  for (int64_t e = 0; e < count; ++e) {
    if (held == k && !Above(logits[e], logits[top[k - 1]])) continue;
    int64_t place = held == k ? k - 1 : held++;
    for (; place > 0 && Above(logits[e], logits[top[place - 1]]); --place)
      top[place] = top[place - 1];
    top[place] = static_cast<int32_t>(e);
  }
}

void SortAscending(int32_t* ids, int64_t k) {
  for (int64_t i = 1; i < k; ++i) {
    const int32_t id = ids[i];
    int64_t place = i;
    for (; place > 0 && ids[place - 1] > id; --place)
      ids[place] = ids[place - 1];
    ids[place] = id;
  }
}

float RowMax(const float* x, int64_t n) {
  F32x16 top = Broadcast(-exact::kInfinity);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) top = Max(Load(x + i), top);
  float best = HorizontalMax(top);
  for (; i < n; ++i) best = x[i] > best ? x[i] : best;
  return best;
}

// Softmax over all experts, of which only the chosen ones' are kept.
void RouteToken(const float* logits, int64_t count, bool renormalise, int64_t k,
                int32_t* expert, float* weight) {
  SelectLargest(logits, count, k, expert);
  SortAscending(expert, k);
  const F32x16 top = Broadcast(RowMax(logits, count));
  F32x16 sum = Zero();
  for (int64_t e = 0; e < count; e += kLanes) {
    const int64_t n = count - e;
    alignas(64) float terms[kLanes];
    Store(terms, Exp(LoadPart(logits + e, n) - top));
    sum = sum + LoadPart(terms, n);
  }
  const float all = HorizontalSum(sum);
  float chosen = 0.0f;
  for (int64_t j = 0; j < k; ++j) {
    const F32x16 term = Exp(Broadcast(logits[expert[j]]) - top);
    weight[j] = FirstLane(term) / all;
    chosen += weight[j];
  }
  if (!renormalise) return;
  for (int64_t j = 0; j < k; ++j) weight[j] /= chosen;
}

// Counting sort of the T * K choices by expert; equal ones keep their order.
void GroupByExpert(const Routing& routing) {
  const int64_t tokens = routing.expert.dims[0];
  const int64_t k = routing.expert.dims[1];
  const int64_t experts = routing.offsets.dims[0] - 1;
  int32_t* offsets = routing.offsets.row<int32_t>(0);
  int32_t* order = routing.order.row<int32_t>(0);
  std::memset(offsets, 0, (experts + 1) * sizeof(int32_t));
  for (int64_t t = 0; t < tokens; ++t)
    for (int64_t j = 0; j < k; ++j)
      ++offsets[routing.expert.row<int32_t>(t)[j] + 1];
  for (int64_t e = 0; e < experts; ++e) offsets[e + 1] += offsets[e];
  // offsets[e] runs through expert e's entries and ends where e + 1 begins ...
  for (int64_t t = 0; t < tokens; ++t)
    for (int64_t j = 0; j < k; ++j)
      order[offsets[routing.expert.row<int32_t>(t)[j]]++] =
          static_cast<int32_t>(t * k + j);
  // ... so shifting the ends by one gives the beginnings back.
  for (int64_t e = experts; e > 0; --e) offsets[e] = offsets[e - 1];
  offsets[0] = 0;
}

}  // namespace

void Route(ThreadPool& pool, Tensor logits, bool renormalise, Routing routing) {
  const int64_t experts = logits.dims[1];
  ForRanges(pool, logits.dims[0], experts * kNsPerLogit,
            [&](int64_t first, int64_t last) {
              for (int64_t t = first; t < last; ++t)
                RouteToken(logits.row<float>(t), experts, renormalise,
                           routing.expert.dims[1],
                           routing.expert.row<int32_t>(t),
                           routing.weight.row<float>(t));
            });
  GroupByExpert(routing);
}

}  // namespace phalanx::PHALANX_ISA
