#include "worker/plan/shares.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "common/units.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/checkpoint/fake_backend.h"
#include "worker/checkpoint/loader.h"
#include "worker/model/qwen35_moe.h"
#include "worker/plan/presets.h"

namespace phalanx {
namespace {

LocalShape ShapeOf(const ModelConfig& config, int tp_size, int rank = 0) {
  return MakeLocalShape(config, rank, tp_size).value();
}

// The unit table of model_spec.md 5.1, in bytes, for one tp_size.
struct UnitColumn {
  int tp_size;
  int64_t vocabulary;
  int64_t attention;
  int64_t gdn;
  int64_t shared_experts;
  int64_t total;
  int64_t experts;
  int64_t kv_token;
  int64_t state;
};

class UnitTable : public testing::TestWithParam<UnitColumn> {
 protected:
  const ModelConfig config_ = PresetConfig("qwen3.6-35b-a3b").value();
  const LocalShape local_ = ShapeOf(config_, GetParam().tp_size);
};

TEST_P(UnitTable, NonExpertsAreThoseOfTheSpecification) {
  const NonExpertShare share = NonExpertShareOf(config_, local_, {});

  EXPECT_EQ(share.vocabulary, GetParam().vocabulary);
  EXPECT_EQ(share.attention, GetParam().attention);
  EXPECT_EQ(share.gdn, GetParam().gdn);
  EXPECT_EQ(share.shared_experts, GetParam().shared_experts);
  EXPECT_EQ(share.routers, 42106880);
  EXPECT_EQ(share.norms, 331776);
  EXPECT_EQ(share.total(), GetParam().total);
}

TEST_P(UnitTable, ExpertsAreThoseOfTheSpecification) {
  EXPECT_EQ(40 * 256 * ExpertBytes(config_, local_, HeldFormat::kBf16),
            GetParam().experts);
}

TEST_P(UnitTable, CachesAreThoseOfTheSpecification) {
  EXPECT_EQ(KvTokenBytes(config_, local_, DType::kBf16), GetParam().kv_token);
  EXPECT_EQ(StateBytes(config_, local_, DType::kBf16), GetParam().state);
}

INSTANTIATE_TEST_SUITE_P(
    TpSizes, UnitTable,
    testing::Values(UnitColumn{1, 2034237440, 545269760, 2023111680, 251658240,
                               4896715776, 60 * kGiB, 20480, 64389120},
                    UnitColumn{2, 1017118720, 272640000, 1011559680, 125829120,
                               2469586176, 30 * kGiB, 10240, 32194560},
                    UnitColumn{4, 508559360, 146810880, 505783680, 62914560,
                               1266507136, 15 * kGiB, 10240, 16097280},
                    UnitColumn{8, 254279680, 83896320, 252895680, 31457280,
                               664967616, 15 * kGiB / 2, 10240, 8048640}));

double GiB(int64_t bytes) {
  return static_cast<double>(bytes) / static_cast<double>(kGiB);
}

TEST(LargerPresets, HaveTheSharesOfTheSpecification) {
  const ModelConfig c122 = PresetConfig("qwen3.5-122b-a10b").value();
  const ModelConfig c397 = PresetConfig("qwen3.5-397b-a17b").value();
  const LocalShape l122 = ShapeOf(c122, 1);
  const LocalShape l397 = ShapeOf(c397, 1);

  EXPECT_EQ(KvTokenBytes(c122, l122, DType::kBf16), 24576);
  EXPECT_EQ(KvTokenBytes(c397, l397, DType::kBf16), 30720);
  EXPECT_NEAR(GiB(StateBytes(c122, l122, DType::kBf16)) * 1024, 146.5, 0.1);
  EXPECT_NEAR(GiB(StateBytes(c397, l397, DType::kBf16)) * 1024, 183.2, 0.1);
  EXPECT_NEAR(GiB(NonExpertShareOf(c122, l122, {}).total()), 11.45, 0.01);
  EXPECT_NEAR(GiB(NonExpertShareOf(c397, l397, {}).total()), 18.25, 0.01);
  EXPECT_EQ(48 * 256 * ExpertBytes(c122, l122, HeldFormat::kBf16), 216 * kGiB);
  EXPECT_EQ(60 * 512 * ExpertBytes(c397, l397, HeldFormat::kBf16), 720 * kGiB);
}

TEST(DenseModel, HasAnMlpInTheLayersPlaceOfExperts) {
  const ModelConfig config =
      LoadModelConfig(GOLDEN_DIR "/models/dense").value();
  const LocalShape local = ShapeOf(config, 2);

  const NonExpertShare share = NonExpertShareOf(config, local, {});

  EXPECT_EQ(share.mlp, 4 * 3 * 64 * 96 * 2);
  EXPECT_EQ(share.shared_experts, 0);
  EXPECT_EQ(share.routers, 0);
  EXPECT_EQ(ExpertBytes(config, local, HeldFormat::kBf16), 0);
}

TEST(Fp8, RanksOfADenseModelThatShareABlockBothHoldItsScale) {
  const ModelConfig config =
      LoadModelConfig(GOLDEN_DIR "/models/dense").value();
  const WeightTypes types = {.format = HeldFormat::kFp8};

  // Rows 96..191 of gate and up, and as many columns of down, lie in 2 blocks.
  EXPECT_EQ(NonExpertShareOf(config, ShapeOf(config, 2, 1), types).mlp,
            4 * (3 * 64 * 96 + 3 * 2 * 2));
}

TEST(Fp8, AnExpertIsOneByteAnElementAndScales) {
  const ModelConfig config = PresetConfig("qwen3.6-35b-a3b").value();

  EXPECT_EQ(ExpertBytes(config, ShapeOf(config, 1), HeldFormat::kFp8),
            3 * kMiB + 384);
}

TEST(Fp8, TheWholeModelIsTheSizeOfItsRelease) {
  const ModelConfig config = PresetConfig("qwen3.6-35b-a3b").value();
  const LocalShape local = ShapeOf(config, 1);
  const WeightTypes types = {.format = HeldFormat::kFp8};

  const int64_t bytes = NonExpertShareOf(config, local, types).total() +
                        40 * 256 * ExpertBytes(config, local, HeldFormat::kFp8);

  EXPECT_NEAR(static_cast<double>(bytes) / 1e9, 35.71, 0.01);
}

TEST(Fp8, RanksThatShareABlockBothHoldItsScale) {
  const ModelConfig config = PresetConfig("qwen3.6-35b-a3b").value();
  const int64_t elements = 3 * 64 * 2048;

  EXPECT_EQ(ExpertBytes(config, ShapeOf(config, 8, 1), HeldFormat::kFp8),
            elements + 3 * 16 * 2);
}

// Against the loader and the model.

struct Loaded {
  const char* model_dir;
  int tp_size;
  WeightFormat format = WeightFormat::kBf16;
};

class SharesOf : public testing::TestWithParam<Loaded> {
 protected:
  SharesOf()
      : checkpoint_(Checkpoint::Open(GetParam().model_dir).value()),
        config_(LoadModelConfig(GetParam().model_dir).value()),
        types_{.format = HeldAs(GetParam().format),
               .gdn = GdnVectorBytesOf(checkpoint_)} {}

  const Checkpoint checkpoint_;
  const ModelConfig config_;
  const WeightTypes types_;
};

TEST_P(SharesOf, EveryRankAreWhatItLoads) {
  for (int rank = 0; rank < GetParam().tp_size; ++rank) {
    const LocalShape local = ShapeOf(config_, GetParam().tp_size, rank);
    FakeBackend backend;
    const auto weights = LoadWeights(checkpoint_, config_, local, backend,
                                     {.format = GetParam().format});
    ASSERT_THAT(weights, IsOk());

    EXPECT_EQ(NonExpertShareOf(config_, local, types_).total(),
              weights->non_expert_bytes);
    EXPECT_EQ(config_.num_layers() * config_.num_experts *
                  ExpertBytes(config_, local, types_.format),
              weights->expert_bytes);
  }
}

TEST_P(SharesOf, TheCachesAreWhatTheModelAsksFor) {
  const LocalShape local = ShapeOf(config_, GetParam().tp_size);
  for (const DType act : {DType::kBf16, DType::kF32}) {
    EXPECT_EQ(kKvBlockTokens * KvTokenBytes(config_, local, act),
              Qwen35Moe::KvShape(config_, local).block_bytes(act));
    EXPECT_EQ(StateBytes(config_, local, act),
              Qwen35Moe::StateShape(config_, local).slot_bytes(act));
  }
}

constexpr char kMoe[] = GOLDEN_DIR "/models/moe";
constexpr char kMoeText[] = GOLDEN_DIR "/models/moe_text";
constexpr char kFp8[] = GOLDEN_DIR "/models/moe_fp8";
constexpr char kDense[] = GOLDEN_DIR "/models/dense";
constexpr char kMini[] = SOURCE_ROOT "/deploy/models/phalanx-mini";

INSTANTIATE_TEST_SUITE_P(Models, SharesOf,
                         testing::Values(Loaded{kMoe, 1, WeightFormat::kInt8},
                                         Loaded{kMoe, 4, WeightFormat::kInt8},
                                         Loaded{kMoe, 8, WeightFormat::kInt4},
                                         Loaded{kFp8, 2, WeightFormat::kInt8},
                                         Loaded{kDense, 2, WeightFormat::kInt8},
                                         Loaded{kMini, 2, WeightFormat::kInt4},
                                         Loaded{kMoe, 1}, Loaded{kMoe, 2},
                                         Loaded{kMoe, 4}, Loaded{kMoe, 8},
                                         Loaded{kMoeText, 1}, Loaded{kDense, 1},
                                         Loaded{kDense, 2}, Loaded{kDense, 4},
                                         Loaded{kMini, 1}, Loaded{kMini, 2},
                                         Loaded{kMini, 4}, Loaded{kMini, 8}));

}  // namespace
}  // namespace phalanx
