#include "kernels/cpu/cpu_backend.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

using testing::HasSubstr;

constexpr int64_t kMiB = int64_t{1} << 20;

std::unique_ptr<Backend> BackendWithLimit(int64_t bytes) {
  CpuBackendConfig config;
  config.memory_limit_bytes = bytes;
  return *CreateCpuBackend(config);
}

TEST(CpuBackend, MemoryIsZeroedAndAligned) {
  auto backend = BackendWithLimit(0);

  for (const int64_t bytes : {int64_t{1}, int64_t{100}, 3 * kMiB, 9 * kMiB}) {
    const auto buffer =
        backend->Allocate(bytes, MemoryComponent::kActivations, "x");

    ASSERT_OK(buffer);
    EXPECT_EQ(reinterpret_cast<intptr_t>(buffer->data()) % 64, 0);
    const std::vector<char> zeros(bytes, 0);
    EXPECT_EQ(std::memcmp(buffer->data(), zeros.data(), bytes), 0) << bytes;
  }
}

TEST(CpuBackend, BigMemoryBeginsAtAHugePage) {
  auto backend = BackendWithLimit(0);

  const auto buffer =
      backend->Allocate(9 * kMiB, MemoryComponent::kRoutedExperts, "experts");

  ASSERT_OK(buffer);
  EXPECT_EQ(reinterpret_cast<intptr_t>(buffer->data()) % (2 * kMiB), 0);
}

TEST(CpuBackend, CountsWhatEachCategoryHolds) {
  auto backend = BackendWithLimit(0);
  {
    const auto kv = backend->Allocate(100, MemoryComponent::kKeysValues, "kv");
    const auto state =
        backend->Allocate(9 * kMiB, MemoryComponent::kStates, "state");
    ASSERT_OK(kv);
    ASSERT_OK(state);
    EXPECT_EQ(backend->allocated_bytes(MemoryComponent::kKeysValues), 128);
    EXPECT_EQ(backend->allocated_bytes(MemoryComponent::kStates), 9 * kMiB);
  }

  EXPECT_EQ(backend->allocated_bytes(MemoryComponent::kKeysValues), 0);
  EXPECT_EQ(backend->allocated_bytes(MemoryComponent::kStates), 0);
}

TEST(CpuBackend, RefusesMoreThanItsLimitAndNamesWhatIsFree) {
  auto backend = BackendWithLimit(1000);
  const auto first = backend->Allocate(600, MemoryComponent::kKeysValues, "kv");
  ASSERT_OK(first);

  const auto second =
      backend->Allocate(600, MemoryComponent::kKeysValues, "more kv");

  EXPECT_THAT(
      second,
      StatusIs(absl::StatusCode::kResourceExhausted,
               HasSubstr(
                   "more kv needs 640 bytes; free are 360 of the limit 1000")));
}

TEST(CpuBackend, MemoryThatWasGivenBackIsFreeAgain) {
  auto backend = BackendWithLimit(1000);

  for (int i = 0; i < 3; ++i)
    EXPECT_OK(backend->Allocate(900, MemoryComponent::kKeysValues, "kv"));
}

TEST(CpuBackend, RefusesMoreThanTheMachineCouldHave) {
  auto backend = BackendWithLimit(0);

  EXPECT_THAT(
      backend->Allocate(int64_t{1} << 62, MemoryComponent::kKeysValues, "x"),
      StatusIs(absl::StatusCode::kResourceExhausted,
               HasSubstr("x needs 4611686018427387904 bytes")));
}

TEST(CpuBackend, RefusesAWeightWhoseSizeOverflows) {
  auto backend = BackendWithLimit(0);

  EXPECT_THAT(backend->AllocateWeight(
                  {.count = 4096, .rows = int64_t{1} << 50, .cols = 1024},
                  MemoryComponent::kRoutedExperts, "experts"),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("experts needs")));
}

TEST(CpuBackend, RefusesAWeightOfTooManyColumns) {
  auto backend = BackendWithLimit(0);

  EXPECT_THAT(
      backend->AllocateWeight({.rows = 32, .cols = 65538},
                              MemoryComponent::kAttention, "head"),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("head has 65538 columns; must be at most 65536")));
}

TEST(CpuBackend, PadsAWeightToWholeTiles) {
  auto backend = BackendWithLimit(0);

  const auto w =
      backend->AllocateWeight({.count = 3, .rows = 40, .cols = 64},
                              MemoryComponent::kRoutedExperts, "experts");

  ASSERT_OK(w);
  EXPECT_EQ(w->matrix_bytes, 64 * 64 * 2);
  EXPECT_EQ(w->share_bytes(), 3 * 40 * 64 * 2);
}

TEST(CreateCpuBackend, RefusesZeroThreads) {
  CpuBackendConfig config;
  config.threads = 0;

  EXPECT_THAT(CreateCpuBackend(config),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("threads is 0; must be 1..1024")));
}

TEST(CreateCpuBackend, RefusesFewerCpusThanThreads) {
  CpuBackendConfig config;
  config.threads = 2;
  config.cpus = {0};

  EXPECT_THAT(CreateCpuBackend(config),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("cpus names 1 CPUs for 2 threads")));
}

TEST(CreateCpuBackend, RefusesACpuItMayNotUse) {
  CpuBackendConfig config;
  config.cpus = {100000};

  EXPECT_THAT(CreateCpuBackend(config),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("cpus names 100000")));
}

TEST(CreateCpuBackend, RefusesBf16DotInThePortableSet) {
  CpuBackendConfig config;
  config.isa = Isa::kPortable;
  config.family = KernelFamily::kBf16Dot;

  EXPECT_THAT(CreateCpuBackend(config),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("bf16dot-2 needs AVX512_BF16")));
}

TEST(CreateCpuBackend, TheEnvironmentForcesALowerSet) {
  setenv("PHALANX_ISA", "portable", 1);
  const auto backend = CreateCpuBackend({});
  unsetenv("PHALANX_ISA");

  ASSERT_OK(backend);
  EXPECT_EQ((*backend)->instruction_set(), "portable");
  EXPECT_EQ((*backend)->kernel_family(), "fma-1");
}

TEST(CreateCpuBackend, RefusesAnUnknownSetInTheEnvironment) {
  setenv("PHALANX_ISA", "sse9", 1);
  const auto backend = CreateCpuBackend({});
  unsetenv("PHALANX_ISA");

  EXPECT_THAT(backend, StatusIs(absl::StatusCode::kInvalidArgument,
                                HasSubstr("PHALANX_ISA is \"sse9\"")));
}

}  // namespace
}  // namespace phalanx
