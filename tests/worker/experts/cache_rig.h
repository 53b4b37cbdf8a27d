#ifndef PHALANX_TESTS_WORKER_EXPERTS_CACHE_RIG_H_
#define PHALANX_TESTS_WORKER_EXPERTS_CACHE_RIG_H_

#include <memory>
#include <utility>
#include <vector>

#include "common/check.h"
#include "kernels/reference/reference_backend.h"
#include "tests/worker/experts/gated_bank.h"
#include "worker/experts/expert_cache.h"

namespace phalanx {

// A cache over a gated bank, and the routings that a test gives to it.
struct CacheRig {
  CacheRig(int layers, int experts, const ExpertCacheConfig& cache_config,
           FetchObserver* observer = nullptr) {
    config.num_experts = experts;
    config.num_experts_per_tok = 1;
    config.hidden_size = 16;
    config.layer_types.resize(static_cast<size_t>(layers));
    shape.expert_width = 16;
    auto made = ExpertCache::Create(backend, config, shape, bank, cache_config,
                                    observer);
    CHECK(made.ok());
    cache = *std::move(made);
  }
  // Fetches may wait at the gate, and the cache for them.
  ~CacheRig() { bank.Open(); }

  // One token for each expert of `needs`.
  void Begin(int layer, const std::vector<int>& needs) {
    offsets.assign(static_cast<size_t>(config.num_experts) + 1, 0);
    for (const int e : needs)
      for (size_t i = static_cast<size_t>(e) + 1; i < offsets.size(); ++i)
        ++offsets[i];
    Routing routing;
    routing.offsets =
        MakeTensor(offsets.data(), DType::kI32, config.num_experts + 1);
    cache->Begin(layer, routing);
  }
  ExpertView BeginAndWait(int layer, const std::vector<int>& needs) {
    Begin(layer, needs);
    return cache->Wait(layer);
  }

  // The marks that the view shows for each expert; 0 where it has no place.
  std::vector<int32_t> MarksIn(const ExpertView& view) const {
    std::vector<int32_t> marks;
    for (int64_t e = 0; e < config.num_experts; ++e) {
      const int64_t place = view.places.row<int32_t>(0)[e];
      if (place < 0) {
        marks.push_back(0);
        continue;
      }
      marks.push_back(GatedBank::MarkIn(*view.gate_up, place));
      CHECK(GatedBank::MarkIn(*view.down, place) == marks.back());
    }
    return marks;
  }
  // Those that it should show.
  std::vector<int32_t> MarksOf(int layer, const std::vector<int>& needs) const {
    std::vector<int32_t> marks(static_cast<size_t>(config.num_experts), 0);
    for (const int e : needs)
      marks[static_cast<size_t>(e)] = GatedBank::MarkOf({layer, e});
    return marks;
  }

  ReferenceBackend backend;
  ModelConfig config;
  LocalShape shape;
  GatedBank bank;
  std::vector<int32_t> offsets;
  std::unique_ptr<ExpertCache> cache;
};

}  // namespace phalanx

#endif  // PHALANX_TESTS_WORKER_EXPERTS_CACHE_RIG_H_
