#ifndef PHALANX_WORKER_BENCH_WORK_H_
#define PHALANX_WORKER_BENCH_WORK_H_

#include <array>
#include <cstdint>

namespace phalanx {

// Where the time of a step goes.
enum class Part : uint8_t {
  kGdn,         // Convolution, gates, delta rule and norms of GDN layers.
  kAttention,   // Norms and rotation of heads, the cache, attention itself.
  kDense,       // Products with the mixers', routers' and shared experts'
                // matrices, and MLPs.
  kExperts,     // Routed experts; the shared one's last product is among them.
  kFetch,       // Waiting for offloaded experts.
  kHead,        // The last norm and the product with the vocabulary.
  kCollective,  // What ranks do together.
  kRest,        // Embedding, norms, sums, routing, inputs and logits.
};
inline constexpr int kParts = 8;
inline constexpr std::array<const char*, kParts> kPartNames = {
    "gdn",   "attention", "dense",      "experts",
    "fetch", "head",      "collective", "rest"};

// Whether a part is products of weights.
constexpr bool IsWeights(Part part) {
  return part == Part::kDense || part == Part::kExperts || part == Part::kHead;
}

// Seconds of one rank, by part.
using PartSeconds = std::array<double, kParts>;

// What some passes asked of one rank, counted as its ops ran. Sums are doubles,
// exact to 2^53, so that they average.
struct Work {
  // Read: each matrix once a step, of experts those that got a token, as the
  // routing was; without padding.
  double weight_bytes = 0;
  // Read of keys, values and states: each position and state once a step.
  double cache_bytes = 0;
  double flops = 0;          // Of products with weights; two a multiply-add.
  double experts = 0;        // That got a token, summed over layers.
  double expert_layers = 0;  // Layers that chose, summed over steps.
  double hits = 0;           // Lookups, in offload.
  double fetches = 0;        // Lookups that did not hit.
  double fetched_bytes = 0;  // Prefetched ones included.

  double read_bytes() const { return weight_bytes + cache_bytes; }
};

// Every field of Work, for whoever sums or sends it.
inline constexpr std::array<double Work::*, 8> kWorkFields = {
    &Work::weight_bytes, &Work::cache_bytes,   &Work::flops,
    &Work::experts,      &Work::expert_layers, &Work::hits,
    &Work::fetches,      &Work::fetched_bytes};

}  // namespace phalanx

#endif  // PHALANX_WORKER_BENCH_WORK_H_
