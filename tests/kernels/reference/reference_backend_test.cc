// What the reference backend adds to the contract: a limit of memory, and
// CHECKs of the values that served backends trust.

#include "kernels/reference/reference_backend.h"

#include <memory>

#include "tests/kernels/rig.h"
#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

using testing::HasSubstr;

TEST(ReferenceBackendTest, RefusesToHoldMoreThanItsLimit) {
  ReferenceBackend backend({.memory_limit_bytes = 1024});
  const auto first =
      backend.Allocate(1000, MemoryComponent::kRoutedExperts, "the experts");
  ASSERT_OK(first);

  EXPECT_THAT(backend.Allocate(1, MemoryComponent::kKeysValues, "the KV cache"),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("the KV cache needs 1 bytes; 1024 are held "
                                 "of at most 1024")));
}

TEST(ReferenceBackendTest, MayAllocateAgainWhatWasGivenBack) {
  ReferenceBackend backend({.memory_limit_bytes = 1024});
  ASSERT_OK(
      backend.Allocate(1000, MemoryComponent::kRoutedExperts, "the experts"));

  EXPECT_OK(
      backend.Allocate(1000, MemoryComponent::kKeysValues, "the KV cache"));
}

TEST(ReferenceBackendTest, CountsWeightsAgainstTheLimit) {
  ReferenceBackend backend({.memory_limit_bytes = 1024});

  EXPECT_THAT(backend.AllocateWeight({.count = 2, .rows = 32, .cols = 16},
                                     MemoryComponent::kRoutedExperts,
                                     "experts of layer 0"),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("experts of layer 0 needs 2048 bytes")));
}

TEST(ReferenceBackendTest, HoldsActivationsInF32) {
  ReferenceBackend backend;

  EXPECT_EQ(backend.activation_dtype(), DType::kF32);
  EXPECT_EQ(backend.kernel_family(), "reference-1");
}

TEST(ReferenceBackendDeathTest, RefusesToDieBeforeItsBuffers) {
  EXPECT_DEATH(
      {
        auto backend = std::make_unique<ReferenceBackend>();
        auto buffer =
            backend->Allocate(64, MemoryComponent::kCommunicator, "a test");
        backend.reset();
      },
      "held_bytes");
}

TEST(ReferenceBackendDeathTest, GatherRowsRefusesARowThatIsNotThere) {
  Rig rig(std::make_unique<ReferenceBackend>());
  const Tensor x = rig.Act({1, 2}, {1, 2});
  const Tensor y = rig.Act({1, 2});

  EXPECT_DEATH(rig.ops().GatherRows(x, rig.I32({1}, {1}), y), "row");
}

TEST(ReferenceBackendDeathTest, StoreKvRefusesAPlacePastTheCache) {
  Rig rig(std::make_unique<ReferenceBackend>());
  const Tensor k = rig.Act({1, 1, 2}, {1, 2});
  const Tensor cache = rig.Act({1, 1, 64, 2}, Floats(128, 0));

  EXPECT_DEATH(rig.ops().StoreKv(k, k, rig.I32({1}, {64}), cache, cache),
               "place");
}

}  // namespace
}  // namespace phalanx
