// The configs of dense models; what they share with those of experts is in
// model_config_test.cc.

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "tests/support/status_matchers.h"
#include "tests/worker/checkpoint/checkpoint_files.h"
#include "worker/checkpoint/model_config.h"

namespace phalanx {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

Json Dense() { return ReadJson(GOLDEN_DIR "/models/dense/config.json"); }

TEST(ParseDenseConfig, ReadsTheFlatModel) {
  const auto config = ParseModelConfig(Dense().dump());
  ASSERT_OK(config);
  EXPECT_EQ(config->dialect, Dialect::kFlat);
  EXPECT_EQ(config->intermediate_size, 192);
  EXPECT_FALSE(config->has_experts());
  EXPECT_EQ(config->num_experts_per_tok, 0);
  EXPECT_EQ(config->linear_num_value_heads, 12);
}

TEST(ParseDenseConfig, ReadsTheNestedModel) {
  const Json json = {{"model_type", "qwen3_5"},
                     {"text_config", Dense()},
                     {"tie_word_embeddings", true}};
  const auto config = ParseModelConfig(json.dump());
  ASSERT_OK(config);
  EXPECT_EQ(config->dialect, Dialect::kNested);
  EXPECT_EQ(config->intermediate_size, 192);
  EXPECT_FALSE(config->has_experts());
  EXPECT_TRUE(config->tie_word_embeddings);
}

TEST(ParseDenseConfig, ReadsBlockFp8) {
  Json json = Dense();
  json["quantization_config"] =
      ReadJson(GOLDEN_DIR "/models/moe_fp8/config.json")["quantization_config"];
  const auto config = ParseModelConfig(json.dump());
  ASSERT_OK(config);
  EXPECT_TRUE(config->block_fp8);
}

TEST(ParseDenseConfig, TakesNoughtAndNullForNoExperts) {
  Json json = Dense();
  json["num_experts"] = 0;
  json["num_experts_per_tok"] = nullptr;
  const auto config = ParseModelConfig(json.dump());
  ASSERT_OK(config);
  EXPECT_FALSE(config->has_experts());
}

struct Refusal {
  const char* name;
  std::function<void(Json& root)> change;  // Of dense.
  const char* message;
};

Refusal Set(const char* name, const char* key, Json value,
            const char* message) {
  return {name, [key, value](Json& root) { root[key] = value; }, message};
}

// Turned into the nested dialect, with a text_config of another kind.
Refusal Nested(const char* name, Json text, const char* message) {
  return {name,
          [text](Json& root) {
            root = {{"model_type", "qwen3_5"}, {"text_config", text}};
          },
          message};
}

class ParseDenseConfigRefuses : public testing::TestWithParam<Refusal> {};

TEST_P(ParseDenseConfigRefuses, NamingWhatIsWrong) {
  Json json = Dense();
  GetParam().change(json);
  EXPECT_THAT(ParseModelConfig(json.dump()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr(GetParam().message)));
}

INSTANTIATE_TEST_SUITE_P(
    Values, ParseDenseConfigRefuses,
    testing::Values(
        Refusal{"NoMlp", [](Json& r) { r.erase("intermediate_size"); },
                "intermediate_size is absent; it is required"},
        Set("MlpWidth", "intermediate_size", 200,
            "intermediate_size is 200; must be a multiple of 16"),
        Set("HugeMlp", "intermediate_size", 1 << 20,
            "intermediate_size is 1048576; must be an integer in 1..131072"),
        Set("Experts", "num_experts", 8,
            "num_experts is 8; must be absent: model_type \"qwen3_5_text\" is "
            "a dense model, without experts"),
        Set("ExpertsPerToken", "num_experts_per_tok", 2,
            "num_experts_per_tok is 2; must be absent"),
        Set("ExpertWidth", "moe_intermediate_size", 64,
            "moe_intermediate_size is 64; must be absent"),
        Set("SharedWidth", "shared_expert_intermediate_size", 64,
            "shared_expert_intermediate_size is 64; must be absent"),
        Nested("NestedWithoutText", nullptr,
               "text_config is null; must be an object where model_type is "
               "\"qwen3_5\""),
        Nested("NestedExperts",
               ReadJson(GOLDEN_DIR "/models/moe_text/config.json"),
               "text_config.model_type is \"qwen3_5_moe_text\"; must be "
               "\"qwen3_5_text\""),
        Set("DenseCalledExperts", "model_type", "qwen3_5_moe_text",
            "num_experts is absent; it is required")),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace phalanx
