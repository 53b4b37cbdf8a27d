// What is CUDA's own in the backend: errors that come late, a current device
// for each thread, weights through staging. What every backend promises is in
// tests/kernels/*_test.cc.

#include "kernels/cuda/cuda_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "kernels/cuda/missing_ops.h"
#include "kernels/cuda/packed_tile.h"
#include "tests/kernels/cuda/card.h"
#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

using cuda_on_cpu::FailNext;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr float kEps = 1e-6f;

// An op that works unless it was told to fail.
void Normalise(Card& card, int times = 1) {
  const Tensor x = card.Bf16(RandomBits(1, 32), 2, 16);
  const Tensor w = card.New(DType::kF32, 16);
  for (int i = 0; i < times; ++i) card.ops().RmsNorm(x, w, kEps, x);
}

TEST(CudaBackend, AnOpThatCannotBeLaunchedIsNamedBySynchronize) {
  Card card;
  FailNext("cudaLaunchKernelEx", cudaErrorInvalidConfiguration);

  Normalise(card);

  EXPECT_THAT(card.backend().Synchronize(),
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr("RmsNorm"),
                             HasSubstr("cudaErrorInvalidConfiguration"))));
}

TEST(CudaBackend, AnErrorIsToldOnce) {
  Card card;
  FailNext("cudaLaunchKernelEx", cudaErrorInvalidConfiguration);
  Normalise(card);
  (void)card.backend().Synchronize();

  EXPECT_OK(card.backend().Synchronize());
}

TEST(CudaBackend, AnOpThatFailsWhileItRunsIsNamedBySynchronize) {
  Card card;
  Normalise(card, 0);
  FailNext("kernel", cudaErrorIllegalAddress);

  Normalise(card);

  EXPECT_THAT(card.backend().Synchronize(),
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr("RmsNorm: "),
                             HasSubstr("cudaErrorIllegalAddress"))));
}

TEST(CudaBackend, OneOfSeveralOpsThatFailsIsNamedAsOneOfThem) {
  Card card;
  const Tensor x = card.Bf16(RandomBits(1, 32), 2, 16);
  const Tensor w = card.New(DType::kF32, 16);
  FailNext("kernel", cudaErrorIllegalAddress);

  card.ops().RmsNorm(x, w, kEps, x);
  card.ops().Add(x, x, x);

  EXPECT_THAT(card.backend().Synchronize(),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("RmsNorm .. Add, one of 2 operations")));
}

TEST(CudaBackend, SynchronizingEachOpNamesTheRightOne) {
  Card card({.staging_bytes = 4096, .synchronize_each_op = true});
  const Tensor x = card.Bf16(RandomBits(1, 32), 2, 16);
  const Tensor w = card.New(DType::kF32, 16);
  card.ops().RmsNorm(x, w, kEps, x);
  FailNext("kernel", cudaErrorIllegalAddress);

  card.ops().Add(x, x, x);

  EXPECT_THAT(card.backend().Synchronize(),
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr("Add: "), Not(HasSubstr("RmsNorm")))));
}

TEST(CudaBackend, ADeviceThatBrokeStaysBroken) {
  Card card;
  FailNext("kernel", cudaErrorIllegalAddress);
  Normalise(card);
  (void)card.backend().Synchronize();

  EXPECT_THAT(card.backend().Synchronize(),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("cudaErrorIllegalAddress")));
}

TEST(CudaBackend, ADownloadThatFailsIsToldBySynchronize) {
  Card card;
  const Tensor x = card.Bf16(RandomBits(1, 32), 2, 16);
  Bits host(32);
  FailNext("cudaMemcpyAsync", cudaErrorInvalidValue);

  card.backend().Download(x, host.data());

  EXPECT_THAT(card.backend().Synchronize(),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("Download: ")));
}

TEST(CudaBackend, WithoutADriverThereIsNoBackend) {
  cuda_on_cpu::Reset();
  FailNext("cudaGetDeviceCount", cudaErrorInsufficientDriver);

  EXPECT_THAT(CreateCudaBackend({}, nullptr),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("cudaGetDeviceCount"),
                             HasSubstr("cudaErrorInsufficientDriver"))));
}

TEST(CudaBackend, ADeviceThatIsNotThereIsNamed) {
  cuda_on_cpu::Reset();

  EXPECT_THAT(CreateCudaBackend({.device = 2}, nullptr),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("device 2 is not there")));
}

TEST(CudaBackend, ACardThatThePluginWasNotBuiltForIsNamed) {
  cuda_on_cpu::Reset();
  FailNext("kernel", cudaErrorNoKernelImageForDevice);

  const auto backend = CreateCudaBackend({}, nullptr);

  cuda_on_cpu::Reset();
  EXPECT_THAT(backend, StatusIs(absl::StatusCode::kFailedPrecondition,
                                HasSubstr("sm_90")));
}

TEST(CudaBackend, TensorCoresNeedABuildThatHasThem) {
  cuda_on_cpu::Reset();

  EXPECT_THAT(CreateCudaBackend({.tensor_cores = true}, nullptr),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("tensor_cores")));
}

TEST(CudaBackend, RefusesMoreThanItsMemoryLimit) {
  cuda_on_cpu::Reset();
  const auto backend = CreateCudaBackend(
      {.memory_limit_bytes = 8192, .staging_bytes = 4096}, nullptr);
  ASSERT_OK(backend);

  EXPECT_THAT(
      (*backend)->Allocate(4097, MemoryComponent::kStates, "the states"),
      StatusIs(absl::StatusCode::kResourceExhausted,
               AllOf(HasSubstr("the states"), HasSubstr("free are 4096"))));
}

TEST(CudaBackend, RefusesAWeightWiderThanItsStaging) {
  Card card;

  EXPECT_THAT(
      card.backend().AllocateWeight({.rows = 1, .cols = 130},
                                    MemoryComponent::kLmHead, "the head"),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("must be at most 128")));
}

TEST(CudaBackend, RunsOpsOfItsDeviceFromAnyThread) {
  Card card({.device = 1, .staging_bytes = 4096});
  const Tensor x = card.Bf16(RandomBits(1, 32), 2, 16);

  // Of a new thread, device 0 is the current one.
  std::thread([&] { card.ops().Add(x, x, x); }).join();

  EXPECT_OK(card.backend().Synchronize());
}

TEST(CudaBackend, AHostThatFollowsADevicePointerDies) {
  Card card;
  const Tensor x = card.Bf16(RandomBits(1, 32), 2, 16);

  EXPECT_DEATH(*x.row<volatile uint16_t>(0) = 1, "");
}

TEST(CudaBackend, AnOpThatIsMissingStopsWithItsName) {
  Card card;
  const Tensor x = card.Bf16(RandomBits(1, 32), 2, 16);

  EXPECT_DEATH(card.ops().Rope(x, x, x), "CUDA has no Rope");
}

// The bits of a weight as they lie on the card.
Bits Packed(Card& card, const PackedWeight& weight) {
  Bits bits(weight.matrix_bytes / 2);
  card.backend().ReadPacked(weight, 0, bits.data());
  return bits;
}

TEST(CudaWeights, LieInTilesOfSixteenByLaneWithZerosWhereNothingIs) {
  constexpr int64_t kRows = 21, kCols = 18;
  Card card;
  const Bits host = RandomBits(1, kRows * kCols);

  const Bits packed = Packed(card, card.Weight(host, kRows, kCols));

  ASSERT_EQ(packed.size(), 2u * 2 * 256);
  for (int64_t row = 0; row < 32; ++row)
    for (int64_t col = 0; col < 32; ++col) {
      const int64_t tile = row / 16 * 2 + col / 16;
      const uint16_t want =
          row < kRows && col < kCols ? host[row * kCols + col] : 0;
      EXPECT_EQ(packed[tile * 256 + cuda::PlaceInTile(row % 16, col % 16)],
                want)
          << row << ", " << col;
    }
}

TEST(CudaWeights, OfGateAndUpHaveEightOfEachInATile) {
  constexpr int64_t kHalf = 11, kCols = 6;
  Card card;
  const Bits host = RandomBits(2, 2 * kHalf * kCols);

  const Bits packed =
      Packed(card, card.Weight(host, 2 * kHalf, kCols, WeightLayout::kGateUp));

  ASSERT_EQ(packed.size(), 2u * 256);
  for (int64_t output = 0; output < 16; ++output)
    for (int64_t col = 0; col < kCols; ++col) {
      const bool exists = output < kHalf;
      const Bits::const_pointer tile = packed.data() + output / 8 * 256;
      EXPECT_EQ(tile[cuda::PlaceInTile(output % 8, col)],
                exists ? host[output * kCols + col] : 0);
      EXPECT_EQ(tile[cuda::PlaceInTile(output % 8 + 8, col)],
                exists ? host[(kHalf + output) * kCols + col] : 0);
    }
}

TEST(CudaWeights, AreTheSameHoweverManyPartsTheyComeIn) {
  constexpr int64_t kRows = 70, kCols = 16;
  const Bits host = RandomBits(3, kRows * kCols);
  for (const auto layout : {WeightLayout::kPlain, WeightLayout::kGateUp}) {
    Card narrow({.staging_bytes = 512}), wide({.staging_bytes = 65536});

    const Bits in_parts =
        Packed(narrow, narrow.Weight(host, kRows, kCols, layout));

    EXPECT_EQ(in_parts, Packed(wide, wide.Weight(host, kRows, kCols, layout)));
  }
}

TEST(CudaWeights, ComeBackAsTheyWereRead) {
  Card card;
  const PackedWeight& from = card.Weight(RandomBits(4, 40 * 32), 40, 32);
  const Bits packed = Packed(card, from);
  auto to =
      card.backend().AllocateWeight({.count = 2, .rows = 40, .cols = 32},
                                    MemoryComponent::kExpertSlots, "a slot");
  ASSERT_OK(to);

  card.backend().StorePacked(packed.data(), 1, *to);

  Bits stored(packed.size());
  card.backend().ReadPacked(*to, 1, stored.data());
  EXPECT_EQ(stored, packed);
}

TEST(CudaWeights, AreDoneWithHostMemoryOnReturn) {
  Card card;
  Bits host = RandomBits(5, 32 * 16);
  const Bits kept = host;
  auto weight = card.backend().AllocateWeight(
      {.rows = 32, .cols = 16}, MemoryComponent::kLmHead, "the head");
  ASSERT_OK(weight);

  card.backend().PackWeight(host.data(), 0, *weight);
  std::fill(host.begin(), host.end(), uint16_t{0});

  EXPECT_EQ(Packed(card, *weight), Packed(card, card.Weight(kept, 32, 16)));
}

TEST(CudaWeights, MayComeInByThreadsBesideOps) {
  constexpr int kThreads = 4;
  Card card;
  const Bits host = RandomBits(6, 40 * 16);
  const Bits want = Packed(card, card.Weight(host, 40, 16));
  auto weight =
      card.backend().AllocateWeight({.count = kThreads, .rows = 40, .cols = 16},
                                    MemoryComponent::kExpertSlots, "slots");
  ASSERT_OK(weight);
  const Tensor x = card.Bf16(RandomBits(1, 32), 2, 16);

  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back(
        [&, i] { card.backend().PackWeight(host.data(), i, *weight); });
  for (int i = 0; i < 8; ++i) card.ops().Add(x, x, x);
  for (std::thread& thread : threads) thread.join();

  EXPECT_OK(card.backend().Synchronize());
  Bits packed(want.size());
  for (int i = 0; i < kThreads; ++i) {
    card.backend().ReadPacked(*weight, i, packed.data());
    EXPECT_EQ(packed, want) << i;
  }
}

}  // namespace
}  // namespace phalanx
