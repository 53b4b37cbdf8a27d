#include "worker/experts/packed_bank.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/reference/reference_backend.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/checkpoint/checkpoint_files.h"
#include "tests/worker/checkpoint/fake_backend.h"
#include "tests/worker/experts/resident_twin.h"
#include "worker/checkpoint/digest.h"
#include "worker/experts/expert_slots.h"

namespace phalanx {
namespace {

constexpr char kModels[] = GOLDEN_DIR "/models/";

// Files of experts in the folder.
int PackFilesIn(const std::string& folder) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    count += entry.path().extension() == ".experts";
  return count;
}

absl::StatusOr<std::unique_ptr<PackedBank>> BankOf(
    const ResidentTwin& twin, Backend& backend, const std::string& dir,
    int threads = 1, WeightFormat format = WeightFormat::kBf16) {
  return PackedBank::Create(twin.checkpoint, twin.config, twin.shape, backend,
                            {.dir = dir,
                             .model_digest = ModelDigest(twin.checkpoint),
                             .threads = threads,
                             .format = format});
}

// Fetches all experts of every rank from a bank that needs no checkpoint.
void ExpectResidentBytes(const std::string& model, int tp_size, bool whole,
                         Backend& backend, const std::string& dir,
                         WeightFormat format = WeightFormat::kBf16) {
  for (int rank = 0; rank < tp_size; ++rank) {
    SCOPED_TRACE(rank);
    auto twin = LoadResidentTwin(kModels + model, rank, tp_size, whole, backend,
                                 format);
    ASSERT_OK(twin);
    auto bank = BankOf(*twin, backend, dir, /*threads=*/2, format);
    ASSERT_OK(bank);
    { const Checkpoint dropped = std::move(twin->checkpoint); }
    auto slots = AllocateExpertSlots(
        backend, ExpertShapesOf(twin->config, twin->shape, format, 3), "slots");
    ASSERT_OK(slots);
    for (int layer = 0; layer < twin->config.num_layers(); ++layer) {
      const auto& moe = std::get<MoeWeights>(
          twin->weights.layers[static_cast<size_t>(layer)].feed_forward);
      for (int e = 0; e < twin->config.num_experts; ++e) {
        (*bank)->WillNeed(layer, e);
        (*bank)->Fetch(layer, e, e % 3, *slots);
        ASSERT_EQ(ReadMatrix(backend, slots->gate_up, e % 3),
                  ReadMatrix(backend, moe.experts_gate_up, e));
        ASSERT_EQ(ReadMatrix(backend, slots->down, e % 3),
                  ReadMatrix(backend, moe.experts_down, e));
      }
    }
  }
}

struct Case {
  const char* model;
  int tp_size;
  bool whole;
};

class PackedBankOf : public testing::TestWithParam<Case> {};

TEST_P(PackedBankOf, FillsSlotsWithTheBytesThatTheLoaderPacks) {
  const auto [model, tp_size, whole] = GetParam();
  auto backend = CreateCpuBackend({});
  ASSERT_OK(backend);
  const TempFolder folder;

  ExpectResidentBytes(model, tp_size, whole, **backend, folder.path());

  EXPECT_EQ(PackFilesIn(folder.path()), 1);  // For all ranks.
}

INSTANTIATE_TEST_SUITE_P(
    Models, PackedBankOf,
    testing::Values(Case{"moe", 1, false}, Case{"moe", 2, false},
                    Case{"moe", 4, false}, Case{"moe", 8, false},
                    Case{"moe", 4, true}, Case{"moe_fp8", 1, false},
                    Case{"moe_fp8", 2, false}, Case{"moe_fp8", 4, false},
                    Case{"moe_fp8", 8, false}, Case{"moe_text", 2, false},
                    Case{"moe_text", 2, true}),
    [](const testing::TestParamInfo<Case>& info) {
      return info.param.model + std::string("_tp") +
             std::to_string(info.param.tp_size) +
             (info.param.whole ? "_whole" : "");
    });

TEST(PackedBank, BackendsOfOtherLayoutsHaveFilesOfTheirOwn) {
  auto cpu = CreateCpuBackend({});
  ASSERT_OK(cpu);
  ReferenceBackend reference;
  const TempFolder folder;

  ExpectResidentBytes("moe", 2, false, **cpu, folder.path());
  ExpectResidentBytes("moe", 2, false, reference, folder.path());

  EXPECT_EQ(PackFilesIn(folder.path()), 2);
}

TEST(PackedBank, FormatsHaveFilesOfTheirOwn) {
  FakeBackend backend;
  const TempFolder folder;

  for (const WeightFormat format :
       {WeightFormat::kBf16, WeightFormat::kInt8, WeightFormat::kInt4})
    ExpectResidentBytes("moe", 2, false, backend, folder.path(), format);

  EXPECT_EQ(PackFilesIn(folder.path()), 3);
}

TEST(PackedBank, ModelsHaveFilesOfTheirOwn) {
  ReferenceBackend backend;
  const TempFolder folder;

  ExpectResidentBytes("moe", 2, false, backend, folder.path());
  ExpectResidentBytes("moe_text", 2, false, backend, folder.path());

  EXPECT_EQ(PackFilesIn(folder.path()), 2);
}

TEST(PackedBank, CountsOneExpertsShareAndTheWholeFile) {
  ReferenceBackend backend;
  const TempFolder folder;
  const auto twin =
      LoadResidentTwin(kModels + std::string("moe"), 0, 2, false, backend);
  ASSERT_OK(twin);
  const int64_t experts = twin->config.num_layers() * twin->config.num_experts;

  const auto bank = BankOf(*twin, backend, folder.path());

  ASSERT_OK(bank);
  EXPECT_EQ((*bank)->expert_bytes() * experts, twin->weights.expert_bytes);
  EXPECT_EQ((*bank)->bytes(),
            static_cast<int64_t>(std::filesystem::file_size((*bank)->path())));
}

TEST(PackedBank, TellsHowFarItIsOnceInBytesOfTheFile) {
  ReferenceBackend backend;
  const auto twin =
      LoadResidentTwin(kModels + std::string("moe"), 0, 2, false, backend);
  ASSERT_OK(twin);
  const TempFolder folder;
  std::vector<LoadProgress> told;
  const PackedBankConfig config = {
      .dir = folder.path(),
      .model_digest = ModelDigest(twin->checkpoint),
      .threads = 2,
      .on_progress = [&](const LoadProgress& now) { told.push_back(now); }};
  const auto create = [&] {
    return PackedBank::Create(twin->checkpoint, twin->config, twin->shape,
                              backend, config);
  };

  ASSERT_OK(create());

  const int64_t experts = twin->config.num_layers() * twin->config.num_experts;
  ASSERT_EQ(std::ssize(told), experts + 1);
  EXPECT_EQ(told.front().done_bytes, 0);
  EXPECT_EQ(told.back().done_bytes, told.back().total_bytes);
  for (size_t i = 1; i < told.size(); ++i)
    EXPECT_EQ(told[i].done_bytes - told[i - 1].done_bytes,
              told[0].total_bytes / experts);

  told.clear();
  ASSERT_OK(create());
  EXPECT_TRUE(told.empty());
}

TEST(PackedBank, GivesTheSlotsBackThatItPackedWith) {
  ReferenceBackend backend;
  const TempFolder folder;
  const auto twin =
      LoadResidentTwin(kModels + std::string("moe"), 0, 2, false, backend);
  ASSERT_OK(twin);

  const auto bank = BankOf(*twin, backend, folder.path(), /*threads=*/3);

  ASSERT_OK(bank);
  EXPECT_EQ(backend.allocated_bytes(MemoryComponent::kExpertSlots), 0);
}

}  // namespace
}  // namespace phalanx
