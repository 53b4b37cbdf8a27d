#include "worker/experts/mapped_bank.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/reference/reference_backend.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/checkpoint/fake_backend.h"
#include "tests/worker/experts/resident_twin.h"
#include "worker/experts/expert_slots.h"

namespace phalanx {
namespace {

constexpr char kModels[] = GOLDEN_DIR "/models/";

struct Case {
  const char* model;
  int tp_size;
  bool whole;
  WeightFormat format = WeightFormat::kBf16;
};

class MappedBankOf : public testing::TestWithParam<Case> {
 protected:
  // Fetches all experts of every rank, last one first, and compares.
  static void ExpectResidentBytes(Backend& backend) {
    const auto [model, tp_size, whole, format] = GetParam();
    for (int rank = 0; rank < tp_size; ++rank) {
      SCOPED_TRACE(rank);
      auto twin = LoadResidentTwin(kModels + std::string(model), rank, tp_size,
                                   whole, backend, format);
      ASSERT_OK(twin);
      auto bank = MappedBank::Create(std::move(twin->checkpoint), twin->config,
                                     twin->shape, backend, format);
      ASSERT_OK(bank);
      auto slots = AllocateExpertSlots(
          backend, ExpertShapesOf(twin->config, twin->shape, format, 3),
          "slots");
      ASSERT_OK(slots);
      for (int layer = 0; layer < twin->config.num_layers(); ++layer) {
        const auto& moe = std::get<MoeWeights>(
            twin->weights.layers[static_cast<size_t>(layer)].feed_forward);
        for (int e = static_cast<int>(twin->config.num_experts) - 1; e >= 0;
             --e) {
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
};

TEST_P(MappedBankOf, FillsSlotsWithTheBytesThatTheLoaderPacks) {
  auto backend = CreateCpuBackend({});
  ASSERT_OK(backend);

  ExpectResidentBytes(**backend);
}

TEST_P(MappedBankOf, FillsTheReferencesSlotsToo) {
  ReferenceBackend backend;

  ExpectResidentBytes(backend);
}

using MappedBankInFormats = MappedBankOf;

TEST_P(MappedBankInFormats, QuantisesAsTheLoaderDoes) {
  FakeBackend backend;

  ExpectResidentBytes(backend);
}

INSTANTIATE_TEST_SUITE_P(
    Models, MappedBankInFormats,
    testing::Values(Case{"moe", 2, false, WeightFormat::kInt8},
                    Case{"moe", 4, true, WeightFormat::kInt4},
                    Case{"moe_fp8", 4, false, WeightFormat::kInt8}),
    [](const testing::TestParamInfo<Case>& info) {
      return info.param.model + std::string("_") +
             WeightFormatName(info.param.format);
    });

INSTANTIATE_TEST_SUITE_P(
    Models, MappedBankOf,
    testing::Values(Case{"moe", 1, false}, Case{"moe", 2, false},
                    Case{"moe", 4, false}, Case{"moe", 8, false},
                    Case{"moe", 4, true}, Case{"moe_fp8", 1, false},
                    Case{"moe_fp8", 2, false}, Case{"moe_fp8", 4, false},
                    Case{"moe_fp8", 8, false}, Case{"moe_fp8", 2, true},
                    Case{"moe_text", 1, false}, Case{"moe_text", 2, false},
                    Case{"moe_text", 2, true}),
    [](const testing::TestParamInfo<Case>& info) {
      return info.param.model + std::string("_tp") +
             std::to_string(info.param.tp_size) +
             (info.param.whole ? "_whole" : "");
    });

TEST(MappedBank, CountsTheRanksShareAsBf16AndTheFilesAsTheyAre) {
  ReferenceBackend backend;
  auto twin = LoadResidentTwin(kModels + std::string("moe_fp8"), 1, 2,
                               /*whole=*/false, backend);
  ASSERT_OK(twin);
  const ModelConfig& config = twin->config;
  const int64_t experts = config.num_layers() * config.num_experts;

  auto bank = MappedBank::Create(std::move(twin->checkpoint), config,
                                 twin->shape, backend);

  ASSERT_OK(bank);
  EXPECT_EQ((*bank)->expert_bytes() * experts, twin->weights.expert_bytes);
  // Codes of one byte and, per block of at most 128 x 128, a multiplier of two.
  const int64_t codes =
      3 * config.moe_intermediate_size * config.hidden_size * experts;
  EXPECT_GT((*bank)->bytes(), codes);
  EXPECT_LT((*bank)->bytes(), codes + codes / 8);
}

TEST(MappedBank, RefusesACheckpointOfAnotherModel) {
  ReferenceBackend backend;
  const auto config = LoadModelConfig(kModels + std::string("moe_text"));
  ASSERT_OK(config);
  const auto shape = MakeLocalShape(*config, 0, 1);
  ASSERT_OK(shape);
  auto checkpoint = Checkpoint::Open(kModels + std::string("moe"));
  ASSERT_OK(checkpoint);

  const auto bank =
      MappedBank::Create(*std::move(checkpoint), *config, *shape, backend);

  EXPECT_THAT(bank, StatusIs(absl::StatusCode::kDataLoss,
                             testing::HasSubstr("layers.4")));
}

}  // namespace
}  // namespace phalanx
