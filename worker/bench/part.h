#ifndef PHALANX_WORKER_BENCH_PART_H_
#define PHALANX_WORKER_BENCH_PART_H_

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

}  // namespace phalanx

#endif  // PHALANX_WORKER_BENCH_PART_H_
