#include "worker/cache/state_cache.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "kernels/reference/reference_backend.h"

namespace phalanx {
namespace {

constexpr StateCacheShape kShape = {.layers = 3,
                                    .value_heads = 2,
                                    .value_dim = 3,
                                    .key_dim = 4,
                                    .conv_channels = 5,
                                    .conv_width = 4,
                                    .slots = 6};

std::vector<float> Read(ReferenceBackend& backend, const Tensor& tensor) {
  std::vector<float> values(tensor.elements());
  backend.Download(tensor, values.data());
  return values;
}

// Every element of this tensor a number of its own, from `first` on.
std::vector<float> Numbers(const Tensor& tensor, float first) {
  std::vector<float> values(tensor.elements());
  std::iota(values.begin(), values.end(), first);
  return values;
}

TEST(StateCache, CopiesStateAndWindowOfASlotInEveryLayerAndNothingElse) {
  ReferenceBackend backend;
  const auto cache = StateCache::Create(backend, kShape).value();
  for (int64_t layer = 0; layer < kShape.layers; ++layer)
    for (const Tensor& all : {cache->state(layer), cache->conv(layer)})
      backend.Upload(Numbers(all, 1000.0f * layer).data(), all);

  cache->Copy(backend.ops(), /*from=*/5, /*to=*/2);

  for (int64_t layer = 0; layer < kShape.layers; ++layer) {
    for (const Tensor& all : {cache->state(layer), cache->conv(layer)}) {
      std::vector<float> want = Numbers(all, 1000.0f * layer);
      const int64_t one = all.row_elements();
      std::copy_n(want.begin() + 5 * one, one, want.begin() + 2 * one);
      EXPECT_EQ(Read(backend, all), want) << layer;
    }
  }
}

TEST(StateCache, HasNothingToCopyInAModelWithoutSuchLayers) {
  ReferenceBackend backend;
  StateCacheShape shape = kShape;
  shape.layers = 0;
  const auto cache = StateCache::Create(backend, shape).value();

  cache->Copy(backend.ops(), 0, 1);

  EXPECT_EQ(cache->bytes(), 0);
}

TEST(StateCacheDeathTest, RefusesASlotThatItDoesNotHave) {
  ReferenceBackend backend;
  const auto cache = StateCache::Create(backend, kShape).value();

  EXPECT_DEATH(cache->Copy(backend.ops(), 6, 0), "slot < shape_.slots");
}

}  // namespace
}  // namespace phalanx
