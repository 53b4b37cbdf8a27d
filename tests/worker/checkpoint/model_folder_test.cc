#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"
#include "tests/worker/checkpoint/checkpoint_files.h"
#include "worker/checkpoint/model_config.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

TEST(LoadModelConfig, ReadsTheModelOfTheRepository) {
  const auto config =
      LoadModelConfig(SOURCE_ROOT "/deploy/models/phalanx-mini");
  ASSERT_OK(config);
  EXPECT_EQ(config->num_layers(), 8);
}

TEST(LoadModelConfig, SaysThatTheFileIsMissing) {
  const TempFolder folder;
  EXPECT_THAT(LoadModelConfig(folder.path()),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr(folder.path() + "/config.json: No such")));
}

TEST(LoadModelConfig, NamesTheFileThatIsWrong) {
  const TempFolder folder;
  folder.Write("config.json", "{\"model_type\": \"llama\"}");
  EXPECT_THAT(LoadModelConfig(folder.path()),
              StatusIs(kInvalid, AllOf(HasSubstr("/config.json: model_type"),
                                       HasSubstr("llama"))));
}

TEST(LoadModelConfig, RefusesAQuantisedExport) {
  const TempFolder folder;
  folder.Write("config.json", ReadBytes(GOLDEN_DIR "/models/moe/config.json"));
  folder.Write("hf_quant_config.json", "{}");
  EXPECT_THAT(LoadModelConfig(folder.path()),
              StatusIs(absl::StatusCode::kUnimplemented,
                       HasSubstr("hf_quant_config.json")));
}

// A folder with these two files; an empty text leaves one out.
GenerationConfig LoadFrom(const std::string& config,
                          const std::string& generation) {
  const TempFolder folder;
  folder.Write("config.json", config);
  if (!generation.empty()) folder.Write("generation_config.json", generation);
  auto loaded = LoadGenerationConfig(folder.path());
  EXPECT_OK(loaded);
  return loaded.value_or(GenerationConfig());
}

TEST(LoadGenerationConfig, ReadsTheModelOfTheRepository) {
  const auto config =
      LoadGenerationConfig(SOURCE_ROOT "/deploy/models/phalanx-mini");
  ASSERT_OK(config);
  EXPECT_THAT(config->eos_token_ids, ElementsAre(896, 898));
  EXPECT_EQ(config->temperature, 0.6f);
  EXPECT_EQ(config->top_p, 0.95f);
  EXPECT_EQ(config->top_k, 20);
  EXPECT_EQ(config->min_p, 0.0f);
}

TEST(LoadGenerationConfig, UnitesTheIdsOfBothFiles) {
  EXPECT_THAT(
      LoadFrom(
          R"({"eos_token_id": 7, "text_config": {"eos_token_id": [9, 3]}})",
          R"({"eos_token_id": [3, 5]})")
          .eos_token_ids,
      ElementsAre(3, 5, 7, 9));
}

TEST(LoadGenerationConfig, KeepsDefaultsWithoutAFile) {
  const GenerationConfig config = LoadFrom("{}", "");
  EXPECT_TRUE(config.eos_token_ids.empty());
  EXPECT_EQ(config.temperature, 1.0f);
  EXPECT_EQ(config.top_p, 1.0f);
  EXPECT_EQ(config.top_k, 0);
}

TEST(LoadGenerationConfig, IsGreedyWhereSamplingIsOff) {
  EXPECT_EQ(
      LoadFrom("{}", R"({"do_sample": false, "temperature": 0.7})").temperature,
      0.0f);
}

TEST(LoadGenerationConfig, SaysThatConfigJsonIsMissing) {
  const TempFolder folder;
  EXPECT_THAT(LoadGenerationConfig(folder.path()),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("config.json")));
}

struct Refusal {
  const char* name;
  const char* config;
  const char* generation;
  const char* message;
};

class LoadGenerationConfigRefuses : public testing::TestWithParam<Refusal> {};

TEST_P(LoadGenerationConfigRefuses, NamingTheKey) {
  const TempFolder folder;
  folder.Write("config.json", GetParam().config);
  folder.Write("generation_config.json", GetParam().generation);
  EXPECT_THAT(LoadGenerationConfig(folder.path()),
              StatusIs(kInvalid, HasSubstr(GetParam().message)));
}

INSTANTIATE_TEST_SUITE_P(
    All, LoadGenerationConfigRefuses,
    testing::Values(
        Refusal{"Hot", "{}", R"({"temperature": 101})",
                "generation_config.json: temperature is 101"},
        Refusal{"Cold", "{}", R"({"temperature": -0.5})",
                "temperature is -0.5; must be a number from 0 to 100"},
        Refusal{"ZeroTopP", "{}", R"({"top_p": 0})", "top_p is 0"},
        Refusal{"TopP", "{}", R"({"top_p": 1.5})", "top_p is 1.5"},
        Refusal{"MinP", "{}", R"({"min_p": 2})", "min_p is 2"},
        Refusal{"TopK", "{}", R"({"top_k": -1})", "top_k is -1"},
        Refusal{"TopKOfAnotherKind", "{}", R"({"top_k": "20"})",
                "top_k is \"20\""},
        Refusal{"NegativeEos", "{}", R"({"eos_token_id": [1, -2]})",
                "eos_token_id is [1,-2]"},
        Refusal{"HugeEos", "{}", R"({"eos_token_id": 4294967296})",
                "eos_token_id is 4294967296"},
        Refusal{"EosOfAnotherKind", R"({"eos_token_id": "end"})", "{}",
                "config.json: eos_token_id is \"end\""},
        Refusal{"NestedEos", R"({"text_config": {"eos_token_id": 1.5}})", "{}",
                "text_config.eos_token_id is 1.5"},
        Refusal{"NoJson", "{}", "{", "generation_config.json: not valid JSON"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace phalanx
