// What every backend promises of its memory, weights and names; backend.h.

#include "kernels/backend.h"

#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "kernels/bf16.h"
#include "tests/kernels/ops_contract.h"
#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

using testing::Each;
using testing::HasSubstr;

class BackendContract : public OpsContract {
 protected:
  Backend& backend_ = rig_.backend();
};

using BackendContractDeathTest = BackendContract;

TEST_P(BackendContract, AllocatesZeroedMemory) {
  auto buffer =
      backend_.Allocate(1000, MemoryComponent::kCommunicator, "a test");
  ASSERT_OK(buffer);
  std::vector<char> host(1000, 1);

  backend_.Download(MakeTensor(buffer->data(), DType::kF32, 250), host.data());

  EXPECT_THAT(host, Each(0));
}

TEST_P(BackendContract, ZeroesMemoryThatWasUsedBefore) {
  const std::vector<char> ones(4096, 1);
  for (int round = 0; round < 2; ++round) {
    auto buffer =
        backend_.Allocate(4096, MemoryComponent::kCommunicator, "a test");
    ASSERT_OK(buffer);
    const Tensor all = MakeTensor(buffer->data(), DType::kF32, 1024);
    std::vector<char> host(4096, 1);

    backend_.Download(all, host.data());
    backend_.Upload(ones.data(), all);

    EXPECT_THAT(host, Each(0)) << "round " << round;
  }
}

TEST_P(BackendContract, AlignsMemoryToCacheLines) {
  for (int64_t bytes : {1, 63, 64, 65, 5000}) {
    auto buffer =
        backend_.Allocate(bytes, MemoryComponent::kCommunicator, "a test");
    ASSERT_OK(buffer);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % 64, 0u) << bytes;
  }
}

TEST_P(BackendContract, CountsWhatIsHeldByCategoryUntilItIsGivenBack) {
  const int64_t before = backend_.allocated_bytes(MemoryComponent::kStates);
  const int64_t other = backend_.allocated_bytes(MemoryComponent::kKeysValues);
  {
    auto buffer = backend_.Allocate(1000, MemoryComponent::kStates, "a test");
    ASSERT_OK(buffer);
    EXPECT_GE(backend_.allocated_bytes(MemoryComponent::kStates),
              before + 1000);
    EXPECT_EQ(backend_.allocated_bytes(MemoryComponent::kKeysValues), other);
  }

  EXPECT_EQ(backend_.allocated_bytes(MemoryComponent::kStates), before);
}

TEST_P(BackendContract, CountsAMovedBufferOnce) {
  const int64_t before =
      backend_.allocated_bytes(MemoryComponent::kCommunicator);
  {
    auto buffer =
        backend_.Allocate(64, MemoryComponent::kCommunicator, "a test");
    ASSERT_OK(buffer);
    const Buffer moved = *std::move(buffer);
    EXPECT_GE(backend_.allocated_bytes(MemoryComponent::kCommunicator),
              before + 64);
  }

  EXPECT_EQ(backend_.allocated_bytes(MemoryComponent::kCommunicator), before);
}

TEST_P(BackendContract, RefusesMoreMemoryThanThereIs) {
  constexpr int64_t kTooMuch = int64_t{1} << 60;

  EXPECT_THAT(
      backend_.Allocate(kTooMuch, MemoryComponent::kKeysValues, "the KV cache"),
      StatusIs(absl::StatusCode::kResourceExhausted,
               testing::AllOf(HasSubstr("the KV cache"),
                              HasSubstr(std::to_string(kTooMuch)))));
}

TEST_P(BackendContract, DownloadsWhatWasUploaded) {
  std::vector<int32_t> sent(300), got(300);
  std::iota(sent.begin(), sent.end(), -7);
  const Tensor tensor = rig_.I32({3, 100}, sent);

  backend_.Download(tensor, got.data());

  EXPECT_EQ(got, sent);
}

TEST_P(BackendContract, AllocatesAWeightOfTheShapeAskedFor) {
  auto weight = backend_.AllocateWeight(
      {.count = 3, .rows = 10, .cols = 6, .layout = WeightLayout::kGateUp},
      MemoryComponent::kRoutedExperts, "the experts");

  ASSERT_OK(weight);
  EXPECT_EQ(weight->count, 3);
  EXPECT_EQ(weight->rows, 10);
  EXPECT_EQ(weight->cols, 6);
  EXPECT_EQ(weight->layout, WeightLayout::kGateUp);
  EXPECT_EQ(weight->share_bytes(), 3 * 10 * 6 * 2);
  EXPECT_GE(weight->matrix_bytes, 10 * 6 * 2);
  EXPECT_GE(weight->storage.bytes(), 3 * weight->matrix_bytes);
  EXPECT_GE(backend_.allocated_bytes(MemoryComponent::kRoutedExperts),
            weight->storage.bytes());
}

TEST_P(BackendContract, PacksEveryMatrixOfAWeightByItself) {
  PHALANX_SKIP_IF_MISSING(GetParam(), "ExpertsGateUp");
  // Filled in another order than they lie; each the identity times its index.
  auto weight = backend_.AllocateWeight(
      {.count = 3, .rows = 4, .cols = 2, .layout = WeightLayout::kGateUp},
      MemoryComponent::kRoutedExperts, "the experts");
  ASSERT_OK(weight);
  for (int e : {2, 0, 1}) {
    Floats values(8, 0);
    values[0] = 64;  // Gate of output 0; output 1 has none.
    values[4] = static_cast<float>(e + 1);
    std::vector<uint16_t> host;
    for (float value : values) host.push_back(F32ToBf16(value));
    backend_.PackWeight(host.data(), e, *weight);
  }
  const Routing routing = {
      rig_.I32({1, 3}, {0, 1, 2}), rig_.Param({1, 3}, {1, 1, 1}),
      rig_.I32({4}, {0, 1, 2, 3}), rig_.I32({3}, {0, 1, 2})};
  const Tensor hidden = rig_.Act({3, 2});

  ops_.ExpertsGateUp(rig_.Act({1, 2}, {1, 0}), *weight, routing, hidden);

  EXPECT_EQ(rig_.Read(hidden), (Floats{64, 0, 128, 0, 192, 0}));
}

TEST_P(BackendContract, StoresAMatrixThatWasReadFromAnotherWeight) {
  PHALANX_SKIP_IF_MISSING(GetParam(), "ExpertsGateUp");
  const PackedWeight& from =
      rig_.Weight(2, 4, 2, {9, 9, 9, 9, 9, 9, 9, 9, 64, 0, 0, 0, 5, 0, 7, 0},
                  WeightLayout::kGateUp);
  auto to = backend_.AllocateWeight(
      {.count = 3, .rows = 4, .cols = 2, .layout = WeightLayout::kGateUp},
      MemoryComponent::kExpertSlots, "the slots");
  ASSERT_OK(to);
  ASSERT_EQ(to->matrix_bytes, from.matrix_bytes);
  std::vector<std::byte> packed(static_cast<size_t>(from.matrix_bytes));

  backend_.ReadPacked(from, 1, packed.data());
  backend_.StorePacked(packed.data(), 2, *to);

  const Routing routing = {rig_.I32({1, 1}, {2}), rig_.Param({1, 1}, {1}),
                           rig_.I32({4}, {0, 0, 0, 1}), rig_.I32({1}, {0})};
  const Tensor hidden = rig_.Act({1, 2});
  ops_.ExpertsGateUp(rig_.Act({1, 2}, {1, 0}), *to, routing, hidden);
  EXPECT_EQ(rig_.Read(hidden), (Floats{320, 0}));
}

TEST_P(BackendContract, AllocatesMoreMatricesThanALayerHasExperts) {
  const auto slots =
      backend_.AllocateWeight({.count = kMaxExperts + 1, .rows = 1, .cols = 2},
                              MemoryComponent::kExpertSlots, "the slots");

  EXPECT_OK(slots);
}

TEST_P(BackendContract, NamesItsLayoutOfWeights) {
  EXPECT_FALSE(backend_.packed_layout().empty());
}

TEST_P(BackendContract, CountsACategoryAsTheSumOfItsComponents) {
  const auto first =
      backend_.Allocate(1000, MemoryComponent::kRouter, "a router");
  const auto second = backend_.Allocate(500, MemoryComponent::kNorm, "a norm");

  EXPECT_EQ(backend_.allocated_bytes_of(MemoryCategory::kNonExpert),
            backend_.allocated_bytes(MemoryComponent::kRouter) +
                backend_.allocated_bytes(MemoryComponent::kNorm));
}

TEST_P(BackendContract, SaysWhatItIs) {
  EXPECT_FALSE(backend_.kernel_family().empty());
  EXPECT_FALSE(backend_.instruction_set().empty());
  EXPECT_EQ(backend_.threads(), 1);
  EXPECT_NE(backend_.activation_dtype(), DType::kI32);
}

TEST_P(BackendContractDeathTest, PackWeightRefusesAnIndexPastTheEnd) {
  auto weight = backend_.AllocateWeight(
      {.rows = 1, .cols = 2}, MemoryComponent::kRoutedExperts, "a test");
  ASSERT_OK(weight);
  const uint16_t host[2] = {0, 0};

  EXPECT_DEATH(backend_.PackWeight(host, 1, *weight), "index");
}

TEST_P(BackendContractDeathTest, AllocateWeightRefusesAnOddNumberOfColumns) {
  EXPECT_DEATH(
      (void)backend_.AllocateWeight({.rows = 1, .cols = 3},
                                    MemoryComponent::kRoutedExperts, "a test"),
      "cols");
}

PHALANX_FOR_EVERY_BACKEND(BackendContract);
PHALANX_FOR_EVERY_BACKEND(BackendContractDeathTest);

}  // namespace
}  // namespace phalanx
