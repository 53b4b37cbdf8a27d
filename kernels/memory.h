#ifndef PHALANX_KERNELS_MEMORY_H_
#define PHALANX_KERNELS_MEMORY_H_

// Who a byte of a card belongs to: the categories and components of
// serving.md section 4, as GetStatus and the metrics spell them. Plain C++.

#include <array>
#include <cstdint>

namespace phalanx {

enum class MemoryCategory : uint8_t {
  kExperts,
  kKvCache,
  kGdnState,
  kNonExpert,
  kWorkspace,
  kComm,
};
inline constexpr int kMemoryCategories = 6;

constexpr std::array<const char*, kMemoryCategories> kMemoryCategoryNames = {
    "experts", "kv_cache", "gdn_state", "non_expert", "workspace", "comm"};

// What a byte is for; each is of one category.
enum class MemoryComponent : uint8_t {
  kRoutedExperts,  // Resident.
  kExpertSlots,    // The cache of offloaded ones.
  kKeysValues,
  kStates,
  kEmbedding,
  kLmHead,
  kAttention,
  kGdn,
  kMlp,  // Of dense models.
  kSharedExpert,
  kRouter,  // And the shared experts' gates.
  kNorm,
  kActivations,
  kGraphs,
  kBlas,
  kCommunicator,
};
inline constexpr int kMemoryComponents = 16;

struct MemoryComponentFacts {
  MemoryCategory category;
  const char* name;
};

constexpr std::array<MemoryComponentFacts, kMemoryComponents>
    kMemoryComponentFacts = {{
        {MemoryCategory::kExperts, "routed"},
        {MemoryCategory::kExperts, "cache_slots"},
        {MemoryCategory::kKvCache, "keys_values"},
        {MemoryCategory::kGdnState, "states"},
        {MemoryCategory::kNonExpert, "embedding"},
        {MemoryCategory::kNonExpert, "lm_head"},
        {MemoryCategory::kNonExpert, "attention"},
        {MemoryCategory::kNonExpert, "gdn"},
        {MemoryCategory::kNonExpert, "mlp"},
        {MemoryCategory::kNonExpert, "shared_expert"},
        {MemoryCategory::kNonExpert, "router"},
        {MemoryCategory::kNonExpert, "norm"},
        {MemoryCategory::kWorkspace, "activations"},
        {MemoryCategory::kWorkspace, "graphs"},
        {MemoryCategory::kWorkspace, "blas"},
        {MemoryCategory::kComm, "communicator"},
    }};

constexpr MemoryCategory CategoryOf(MemoryComponent component) {
  return kMemoryComponentFacts[static_cast<size_t>(component)].category;
}

}  // namespace phalanx

#endif  // PHALANX_KERNELS_MEMORY_H_
