#include "worker/cache/kv_cache.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "kernels/reference/reference_backend.h"
#include "kernels/sequences.h"

namespace phalanx {
namespace {

constexpr KvCacheShape kShape = {
    .layers = 3, .kv_heads = 2, .head_dim = 4, .blocks = 5};
constexpr int64_t kBlockElements = 2 * kKvBlockTokens * 4;

std::vector<float> Read(ReferenceBackend& backend, const Tensor& tensor) {
  std::vector<float> values(tensor.elements());
  backend.Download(tensor, values.data());
  return values;
}

// Every element a number of its own.
void Fill(ReferenceBackend& backend, const KvCache& cache) {
  float next = 0;
  for (int64_t layer = 0; layer < kShape.layers; ++layer) {
    for (const Tensor& plane : {cache.keys(layer), cache.values(layer)}) {
      std::vector<float> values(plane.elements());
      std::iota(values.begin(), values.end(), next);
      next += static_cast<float>(values.size());
      backend.Upload(values.data(), plane);
    }
  }
}

TEST(KvCache, CopiesKeysAndValuesOfABlockInEveryLayerAndNothingElse) {
  ReferenceBackend backend;
  const auto cache = KvCache::Create(backend, kShape).value();
  Fill(backend, *cache);

  cache->Copy(backend.ops(), /*from=*/1, /*to=*/3);

  float first = 0;
  for (int64_t layer = 0; layer < kShape.layers; ++layer) {
    for (const Tensor& plane : {cache->keys(layer), cache->values(layer)}) {
      std::vector<float> want(plane.elements());
      std::iota(want.begin(), want.end(), first);
      first += static_cast<float>(want.size());
      std::copy_n(want.begin() + kBlockElements, kBlockElements,
                  want.begin() + 3 * kBlockElements);
      EXPECT_EQ(Read(backend, plane), want) << layer;
    }
  }
}

TEST(KvCache, CopiesNothingFromABlockToItself) {
  ReferenceBackend backend;
  const auto cache = KvCache::Create(backend, kShape).value();
  Fill(backend, *cache);
  const std::vector<float> before = Read(backend, cache->keys(2));

  cache->Copy(backend.ops(), 4, 4);

  EXPECT_EQ(Read(backend, cache->keys(2)), before);
}

TEST(KvCacheDeathTest, RefusesABlockThatItDoesNotHave) {
  ReferenceBackend backend;
  const auto cache = KvCache::Create(backend, kShape).value();

  EXPECT_DEATH(cache->Copy(backend.ops(), 0, 5), "block < shape_.blocks");
}

}  // namespace
}  // namespace phalanx
