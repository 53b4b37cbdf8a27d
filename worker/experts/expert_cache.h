#ifndef PHALANX_WORKER_EXPERTS_EXPERT_CACHE_H_
#define PHALANX_WORKER_EXPERTS_EXPERT_CACHE_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "worker/checkpoint/model_config.h"
#include "worker/experts/expert_bank.h"
#include "worker/experts/expert_source.h"

namespace phalanx {

struct ExpertCacheConfig {
  int64_t slots = 0;  // At least num_experts: a layer in flight always fits.
  int fetch_threads = 1;
  WeightFormat format = WeightFormat::kBf16;  // Of the slots.
};

// Of the steps that count. A lookup is one expert that one layer of one step
// needs.
struct ExpertCacheCounters {
  int64_t slots = 0;
  int64_t slots_used = 0;
  int64_t hits = 0;           // Lookups that found their expert in its slot.
  int64_t fetches = 0;        // Lookups that did not.
  int64_t fetched_bytes = 0;  // Prefetched ones included.
  int64_t tokens = 0;         // That went through the first layer.
  double imbalance = 0;  // Of the last layer: most tokens of an expert / mean.

  // 0 before the first lookup.
  double hit_ratio() const {
    const int64_t lookups = hits + fetches;
    return lookups == 0
               ? 0
               : static_cast<double>(hits) / static_cast<double>(lookups);
  }
  // Of all steps together; prefill shares a fetch between many tokens.
  double fetched_bytes_per_token() const {
    return tokens == 0 ? 0
                       : static_cast<double>(fetched_bytes) /
                             static_cast<double>(tokens);
  }
};

// Sees each fetch that counts end, from a fetch thread: for metrics.
class FetchObserver {
 public:
  virtual ~FetchObserver() = default;
  virtual void OnFetch(double seconds, int64_t bytes) = 0;
};

// A bounded set of slots on the device that holds the hot experts of a bank
// (design.md section 5): least recently used ones go first, those of the layer
// in flight and of the one being prefetched are pinned. Fetches run on threads
// of its own from Begin on; a step that needs most experts of a layer also
// fetches the next layer's while this one is computed, if slots allow.
// Made once after load; outlives the model. Begin and Wait are the engine
// thread's, counters any thread's.
class ExpertCache final : public ExpertSource {
 public:
  // The backend and the bank outlive it. INVALID_ARGUMENT names slots and their
  // limits; RESOURCE_EXHAUSTED comes from the backend. `observer` may be null.
  static absl::StatusOr<std::unique_ptr<ExpertCache>> Create(
      Backend& backend, const ModelConfig& config, const LocalShape& shape,
      const ExpertBank& bank, const ExpertCacheConfig& cache,
      FetchObserver* observer = nullptr);
  ~ExpertCache() override;

  void Begin(int layer, const Routing& routing) override;
  ExpertView Wait(int layer) override;

  void Count(bool counting) override;  // At first it does.

  ExpertCacheCounters counters() const;

 private:
  class Work;
  explicit ExpertCache(std::unique_ptr<Work> work);

  const std::unique_ptr<Work> work_;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_EXPERTS_EXPERT_CACHE_H_
