// The cache over real banks: what Wait shows are the loader's bytes, whichever
// threads fetched them and whatever had to make room.

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/check.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/checkpoint/checkpoint_files.h"
#include "tests/worker/experts/resident_twin.h"
#include "worker/checkpoint/digest.h"
#include "worker/experts/expert_cache.h"
#include "worker/experts/mapped_bank.h"
#include "worker/experts/packed_bank.h"

namespace phalanx {
namespace {

constexpr int kSteps = 10;

// Steps through the layers with random needs, from few to all.
void ExpectResidentBytes(const ResidentTwin& twin, Backend& backend,
                         const ExpertBank& bank, int64_t slots) {
  auto cache = ExpertCache::Create(backend, twin.config, twin.shape, bank,
                                   {.slots = slots, .fetch_threads = 3});
  ASSERT_OK(cache);
  const auto experts = static_cast<size_t>(twin.config.num_experts);
  std::mt19937 random(1);
  for (int step = 0; step < kSteps; ++step) {
    const uint32_t density = 1 + random() % 4;
    for (int layer = 0; layer < twin.config.num_layers(); ++layer) {
      std::vector<int32_t> offsets(experts + 1);
      for (size_t e = 0; e < experts; ++e)
        offsets[e + 1] = offsets[e] + (random() % 4 < density ? 1 : 0);
      Routing routing;
      routing.offsets =
          MakeTensor(offsets.data(), DType::kI32, twin.config.num_experts + 1);

      (*cache)->Begin(layer, routing);
      const ExpertView view = (*cache)->Wait(layer);

      const auto& moe = std::get<MoeWeights>(
          twin.weights.layers[static_cast<size_t>(layer)].feed_forward);
      for (size_t e = 0; e < experts; ++e) {
        if (offsets[e + 1] == offsets[e]) continue;
        const int64_t place = view.places.row<int32_t>(0)[e];
        const auto index = static_cast<int64_t>(e);
        ASSERT_EQ(ReadMatrix(backend, *view.gate_up, place),
                  ReadMatrix(backend, moe.experts_gate_up, index));
        ASSERT_EQ(ReadMatrix(backend, *view.down, place),
                  ReadMatrix(backend, moe.experts_down, index));
      }
    }
  }
}

class CacheOverBanks : public testing::TestWithParam<int> {
 protected:
  CacheOverBanks() {
    auto backend = CreateCpuBackend({});
    CHECK(backend.ok());
    backend_ = *std::move(backend);
    auto twin = LoadResidentTwin(GOLDEN_DIR "/models/moe", 1, 2,
                                 /*whole=*/false, *backend_);
    CHECK(twin.ok());
    twin_.emplace(*std::move(twin));
  }
  // Of 8 experts a layer, 4 layers.
  int64_t slots() const { return GetParam(); }

  std::unique_ptr<Backend> backend_;
  std::optional<ResidentTwin> twin_;
};

TEST_P(CacheOverBanks, ShowsTheLoadersBytesFromTheMappedCheckpoint) {
  auto bank = MappedBank::Create(std::move(twin_->checkpoint), twin_->config,
                                 twin_->shape, *backend_);
  ASSERT_OK(bank);

  ExpectResidentBytes(*twin_, *backend_, **bank, slots());
}

TEST_P(CacheOverBanks, ShowsTheLoadersBytesFromThePackedFile) {
  const TempFolder folder;
  auto bank = PackedBank::Create(
      twin_->checkpoint, twin_->config, twin_->shape, *backend_,
      {.dir = folder.path(), .model_digest = ModelDigest(twin_->checkpoint)});
  ASSERT_OK(bank);

  ExpectResidentBytes(*twin_, *backend_, **bank, slots());
}

INSTANTIATE_TEST_SUITE_P(Slots, CacheOverBanks, testing::Values(8, 11, 16));

}  // namespace
}  // namespace phalanx
