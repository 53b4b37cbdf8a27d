#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"
#include "worker/checkpoint/model_config.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::HasSubstr;

ModelConfig MoeConfig() {
  auto config = LoadModelConfig(GOLDEN_DIR "/models/moe");
  EXPECT_OK(config);
  return *std::move(config);
}

TEST(MakeLocalShape, OfOneRankIsTheModel) {
  const ModelConfig config = MoeConfig();
  const auto shape = MakeLocalShape(config, 0, 1);
  ASSERT_OK(shape);
  EXPECT_EQ(shape->slices, 8);
  EXPECT_EQ(shape->query_heads, 8);
  EXPECT_EQ(shape->kv_heads, 2);
  EXPECT_EQ(shape->gdn_key_heads, 8);
  EXPECT_EQ(shape->gdn_value_heads, 16);
  EXPECT_EQ(shape->conv_channels, 512);
  EXPECT_EQ(shape->expert_width, 64);
  EXPECT_EQ(shape->shared_width, 64);
  EXPECT_EQ(shape->vocab_rows, 510);
}

TEST(MakeLocalShape, CutsEverySizeByTheNumberOfRanks) {
  const auto shape = MakeLocalShape(MoeConfig(), 5, 8);
  ASSERT_OK(shape);
  EXPECT_EQ(shape->slices, 1);
  EXPECT_EQ(shape->query_heads, 1);
  EXPECT_EQ(shape->kv_heads, 1);
  EXPECT_EQ(shape->first_kv_head, 1);
  EXPECT_EQ(shape->gdn_key_heads, 1);
  EXPECT_EQ(shape->gdn_value_heads, 2);
  EXPECT_EQ(shape->conv_channels, 64);
  EXPECT_EQ(shape->expert_width, 8);
  EXPECT_EQ(shape->shared_width, 8);
}

TEST(MakeLocalShape, CutsTheMlpOfADenseModel) {
  const auto config = LoadModelConfig(GOLDEN_DIR "/models/dense");
  ASSERT_OK(config);

  const auto shape = MakeLocalShape(*config, 1, 4);

  ASSERT_OK(shape);
  EXPECT_EQ(shape->mlp_width, 48);
  EXPECT_EQ(shape->expert_width, 0);
}

TEST(MakeLocalShape, RoundsTheVocabularyUp) {
  const auto shape = MakeLocalShape(MoeConfig(), 7, 8);
  ASSERT_OK(shape);
  EXPECT_EQ(shape->vocab_rows, 64);
  EXPECT_EQ(shape->first_vocab, 448);
}

struct Refusal {
  const char* name;
  int tp_size;
  void (*change)(ModelConfig&);
  const char* field;
  const char* sizes;
};

class MakeLocalShapeRefuses : public testing::TestWithParam<Refusal> {};

TEST_P(MakeLocalShapeRefuses, NamingTheFieldAndThePossibleSizes) {
  ModelConfig config = MoeConfig();
  GetParam().change(config);
  EXPECT_THAT(MakeLocalShape(config, 0, GetParam().tp_size),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr(GetParam().field),
                             HasSubstr(GetParam().sizes))));
}

INSTANTIATE_TEST_SUITE_P(
    All, MakeLocalShapeRefuses,
    testing::Values(
        Refusal{"Three", 3, [](ModelConfig&) {},
                "num_attention_heads=8 is not divisible by tp_size=3",
                "runs at tp_size 1, 2, 4, 8"},
        Refusal{"Sixteen", 16, [](ModelConfig&) {},
                "num_attention_heads=8 is not divisible by tp_size=16",
                "runs at tp_size 1, 2, 4, 8"},
        Refusal{"MoreThanSlices", 16,
                [](ModelConfig& c) {
                  c.num_attention_heads = 16;
                  c.linear_num_key_heads = 16;
                },
                "tp_size=16 does not divide the 8 slices", "1, 2, 4, 8"},
        Refusal{"ThreeThatDividesAll", 3,
                [](ModelConfig& c) {
                  c.num_attention_heads = c.num_key_value_heads = 24;
                  c.linear_num_key_heads = c.linear_num_value_heads = 24;
                  c.moe_intermediate_size = 48;
                  c.shared_expert_intermediate_size = 48;
                },
                "tp_size=3 does not divide the 8 slices", "1, 2, 4, 8"},
        Refusal{"GdnKeyHeads", 8,
                [](ModelConfig& c) { c.linear_num_key_heads = 4; },
                "linear_num_key_heads=4 is not divisible by tp_size=8",
                "runs at tp_size 1, 2, 4"},
        Refusal{"GdnValueHeads", 8,
                [](ModelConfig& c) { c.linear_num_value_heads = 12; },
                "linear_num_value_heads=12", "runs at tp_size 1, 2, 4"},
        Refusal{"Experts", 4,
                [](ModelConfig& c) { c.moe_intermediate_size = 50; },
                "moe_intermediate_size=50", "runs at tp_size 1, 2"},
        Refusal{"SharedExpert", 4,
                [](ModelConfig& c) { c.shared_expert_intermediate_size = 50; },
                "shared_expert_intermediate_size=50", "runs at tp_size 1, 2"},
        Refusal{"Mlp", 4, [](ModelConfig& c) { c.intermediate_size = 50; },
                "intermediate_size=50 is not divisible by tp_size=4",
                "runs at tp_size 1, 2"},
        Refusal{"KvHeadsThatDoNotDivide", 4,
                [](ModelConfig& c) { c.num_key_value_heads = 6; },
                "num_key_value_heads=6 is not divisible by tp_size=4",
                "runs at tp_size 1, 2"},
        Refusal{"KvHeadsThatDoNotReplicate", 8,
                [](ModelConfig& c) {
                  c.num_attention_heads = 24;
                  c.num_key_value_heads = 3;
                },
                "tp_size=8 is not a multiple of num_key_value_heads=3",
                "runs at tp_size 1"},
        Refusal{"Zero", 0, [](ModelConfig&) {}, "tp_size is 0", "1, 2, 4, 8"},
        Refusal{"Negative", -2, [](ModelConfig&) {}, "tp_size is -2",
                "1, 2, 4, 8"}),
    [](const auto& info) { return info.param.name; });

TEST(MakeLocalShape, RefusesARankOutsideTheGroup) {
  EXPECT_THAT(MakeLocalShape(MoeConfig(), 2, 2),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("rank is 2; must be 0..1")));
  EXPECT_THAT(
      MakeLocalShape(MoeConfig(), -1, 2),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("rank is -1")));
}

}  // namespace
}  // namespace phalanx
