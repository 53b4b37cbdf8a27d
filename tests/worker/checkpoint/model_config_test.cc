#include "worker/checkpoint/model_config.h"

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "tests/support/status_matchers.h"
#include "tests/worker/checkpoint/checkpoint_files.h"

namespace phalanx {
namespace {

using Json = nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kLater = absl::StatusCode::kUnimplemented;
constexpr auto kLinear = LayerKind::kLinearAttention;
constexpr auto kFull = LayerKind::kFullAttention;

Json Nested() { return ReadJson(GOLDEN_DIR "/models/moe/config.json"); }
Json Fp8() { return ReadJson(GOLDEN_DIR "/models/moe_fp8/config.json"); }
Json Next() { return ReadJson(GOLDEN_DIR "/models/next/config.json"); }
Json Flat() { return ReadJson(GOLDEN_DIR "/models/moe_text/config.json"); }

TEST(ParseModelConfig, ReadsTheNestedDialect) {
  const auto config = ParseModelConfig(Nested().dump());
  ASSERT_OK(config);
  EXPECT_EQ(config->dialect, Dialect::kNested);
  EXPECT_EQ(config->hidden_size, 64);
  EXPECT_EQ(config->vocab_size, 510);
  EXPECT_EQ(config->max_position_embeddings, 4096);
  EXPECT_EQ(config->rms_norm_eps, 1e-6f);
  EXPECT_EQ(config->num_attention_heads, 8);
  EXPECT_EQ(config->num_key_value_heads, 2);
  EXPECT_EQ(config->head_dim, 32);
  EXPECT_EQ(config->rotary_dim, 8);
  EXPECT_EQ(config->rope_theta, 1e7);
  EXPECT_EQ(config->linear_num_key_heads, 8);
  EXPECT_EQ(config->linear_num_value_heads, 16);
  EXPECT_EQ(config->linear_key_head_dim, 16);
  EXPECT_EQ(config->linear_value_head_dim, 16);
  EXPECT_EQ(config->linear_conv_kernel_dim, 4);
  EXPECT_EQ(config->num_experts, 8);
  EXPECT_EQ(config->num_experts_per_tok, 2);
  EXPECT_EQ(config->moe_intermediate_size, 64);
  EXPECT_EQ(config->shared_expert_intermediate_size, 64);
  EXPECT_TRUE(config->norm_topk_prob);
  EXPECT_FALSE(config->tie_word_embeddings);
  EXPECT_THAT(config->layer_types,
              ElementsAre(kLinear, kLinear, kLinear, kFull));
}

TEST(ParseModelConfig, ReadsTheFlatDialect) {
  const auto config = ParseModelConfig(Flat().dump());
  ASSERT_OK(config);
  EXPECT_EQ(config->dialect, Dialect::kFlat);
  EXPECT_EQ(config->rotary_dim, 6);
  EXPECT_EQ(config->rope_theta, 5e5);
  EXPECT_TRUE(config->tie_word_embeddings);
  EXPECT_THAT(config->layer_types,
              ElementsAre(kFull, kLinear, kLinear, kFull, kLinear));
}

TEST(ParseModelConfig, DerivesLayersFromTheInterval) {
  Json json = Nested();
  json["text_config"].erase("layer_types");
  json["text_config"]["full_attention_interval"] = 2;
  const auto config = ParseModelConfig(json.dump());
  ASSERT_OK(config);
  EXPECT_THAT(config->layer_types, ElementsAre(kLinear, kFull, kLinear, kFull));
}

TEST(ParseModelConfig, LetsLayerTypesWinOverTheInterval) {
  Json json = Nested();
  json["text_config"]["full_attention_interval"] = 2;
  const auto config = ParseModelConfig(json.dump());
  ASSERT_OK(config);
  EXPECT_THAT(config->layer_types,
              ElementsAre(kLinear, kLinear, kLinear, kFull));
}

TEST(ParseModelConfig, ReadsTheLegacySpellingOfFullAttention) {
  Json json = Nested();
  json["text_config"]["layer_types"][0] = "attention";
  const auto config = ParseModelConfig(json.dump());
  ASSERT_OK(config);
  EXPECT_EQ(config->layer_types[0], kFull);
}

TEST(ParseModelConfig, PrefersRopeParametersToFlatKeys) {
  Json json = Flat();
  json["rope_theta"] = 123.0;
  json["partial_rotary_factor"] = 0.5;
  const auto config = ParseModelConfig(json.dump());
  ASSERT_OK(config);
  EXPECT_EQ(config->rope_theta, 5e5);
  EXPECT_EQ(config->rotary_dim, 6);
}

TEST(ParseModelConfig, FallsBackToFlatRopeKeys) {
  Json json = Flat();
  json.erase("rope_parameters");
  json["rope_theta"] = 123.0;
  json["partial_rotary_factor"] = 0.5;
  const auto config = ParseModelConfig(json.dump());
  ASSERT_OK(config);
  EXPECT_EQ(config->rope_theta, 123.0);
  EXPECT_EQ(config->rotary_dim, 12);
}

TEST(ParseModelConfig, RotatesAQuarterOfAHeadUnlessToldOtherwise) {
  Json json = Flat();
  json["rope_parameters"].erase("partial_rotary_factor");
  const auto config = ParseModelConfig(json.dump());
  ASSERT_OK(config);
  EXPECT_EQ(config->rotary_dim, 6);
}

TEST(ParseModelConfig, TakesNullForAbsent) {
  Json json = Flat();
  json["rope_scaling"] = nullptr;
  json["quantization_config"] = nullptr;
  json["norm_topk_prob"] = nullptr;
  json["rms_norm_eps"] = nullptr;
  const auto config = ParseModelConfig(json.dump());
  ASSERT_OK(config);
  EXPECT_TRUE(config->norm_topk_prob);
  EXPECT_EQ(config->rms_norm_eps, 1e-6f);
}

TEST(ParseModelConfig, ReadsBlockFp8) {
  const auto config = ParseModelConfig(Fp8().dump());
  ASSERT_OK(config);
  EXPECT_TRUE(config->block_fp8);
}

TEST(ParseModelConfig, ReadsBlockFp8OfTheTextConfig) {
  Json json = Fp8();
  json["text_config"]["quantization_config"] = json["quantization_config"];
  json.erase("quantization_config");
  const auto config = ParseModelConfig(json.dump());
  ASSERT_OK(config);
  EXPECT_TRUE(config->block_fp8);
}

TEST(ParseModelConfig, ReadsTheFormatOfPhalanxQuantize) {
  Json json = Flat();
  json["tie_word_embeddings"] = true;
  json["quantization_config"] = {
      {"quant_method", "phalanx"}, {"weights", "int4"}, {"version", 1}};
  const auto config = ParseModelConfig(json.dump());
  ASSERT_OK(config);
  EXPECT_EQ(config->stored_weights, WeightFormat::kInt4);
  // The table stays bf16, so the head has codes of its own.
  EXPECT_TRUE(config->has_lm_head());
}

TEST(ParseModelConfig, RefusesAnotherFormatBesideThatOfPhalanxQuantize) {
  const Json own = {
      {"quant_method", "phalanx"}, {"weights", "int8"}, {"version", 1}};
  const Json fp8 = {{"quant_method", "fp8"}, {"weight_block_size", {128, 128}}};
  const std::pair<Json, Json> pairs[] = {{own, own}, {own, fp8}, {fp8, own}};
  for (const auto& [first, second] : pairs) {
    Json json = Flat();
    json["quantization_config"] = first;
    json["compression_config"] = second;

    EXPECT_THAT(ParseModelConfig(json.dump()),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         testing::HasSubstr("compression_config is")));
  }
}

TEST(ParseModelConfig, ReadsWhatPhalanxQuantizeSaysOfItsFiles) {
  Json json = Flat();
  json["quantization_config"] = {{"quant_method", "phalanx"},
                                 {"weights", "int8"},
                                 {"version", 1},
                                 {"digest", std::string(64, 'a')},
                                 {"source_digest", std::string(64, '0')}};
  const auto config = ParseModelConfig(json.dump());
  ASSERT_OK(config);
  ASSERT_TRUE(config->codes_origin.has_value());
  EXPECT_EQ(config->codes_origin->digest, std::string(64, 'a'));
  EXPECT_EQ(config->codes_origin->source_digest, std::string(64, '0'));
}

TEST(HeldFormatOf, TakesWhatTheModelIsStoredIn) {
  ModelConfig config;
  EXPECT_EQ(*HeldFormatOf(config, "auto"), WeightFormat::kBf16);
  EXPECT_EQ(*HeldFormatOf(config, "int4"), WeightFormat::kInt4);
  config.stored_weights = WeightFormat::kInt8;
  EXPECT_EQ(*HeldFormatOf(config, "auto"), WeightFormat::kInt8);
  EXPECT_EQ(*HeldFormatOf(config, "int8"), WeightFormat::kInt8);
  EXPECT_TRUE(absl::IsInvalidArgument(HeldFormatOf(config, "bf16").status()));
}

TEST(ParseModelConfig, TakesWeightsForBf16WithoutAWordOnThem) {
  const auto config = ParseModelConfig(Flat().dump());
  ASSERT_OK(config);
  EXPECT_FALSE(config->block_fp8);
}

// Flat rope_theta, no layer_types, norm_topk_prob in the file.
TEST(ParseModelConfig, ReadsQwen3Next) {
  const auto config = ParseModelConfig(Next().dump());
  ASSERT_OK(config);
  EXPECT_EQ(config->dialect, Dialect::kNext);
  EXPECT_EQ(config->rope_theta, 1e7);
  EXPECT_EQ(config->rotary_dim, 8);
  EXPECT_TRUE(config->norm_topk_prob);
  EXPECT_THAT(config->layer_types,
              ElementsAre(kLinear, kLinear, kLinear, kFull));
}

TEST(ParseModelConfig, ReadsNormTopkProbOfQwen3Next) {
  Json json = Next();
  json["norm_topk_prob"] = false;
  const auto config = ParseModelConfig(json.dump());
  ASSERT_OK(config);
  EXPECT_FALSE(config->norm_topk_prob);
}

// qwen3_next files have one, for layers without experts, of which there are
// none.
TEST(ParseModelConfig, PassesOverAnMlpBesideExperts) {
  Json json = Next();
  json["intermediate_size"] = 5120;
  const auto config = ParseModelConfig(json.dump());
  ASSERT_OK(config);
  EXPECT_EQ(config->intermediate_size, 0);
}

TEST(ParseModelConfig, LetsAnExplicitNormTopkProbWin) {
  Json json = Flat();
  json["norm_topk_prob"] = false;
  const auto config = ParseModelConfig(json.dump());
  ASSERT_OK(config);
  EXPECT_FALSE(config->norm_topk_prob);
}

TEST(ParseModelConfig, PrefersTheRootsTieWordEmbeddings) {
  Json json = Nested();
  json["tie_word_embeddings"] = true;
  const auto config = ParseModelConfig(json.dump());
  ASSERT_OK(config);
  EXPECT_TRUE(config->tie_word_embeddings);
}

TEST(ParseModelConfig, IgnoresUnknownKeys) {
  Json json = Nested();
  json["a_key_of_the_future"] = {{"deep", {1, 2, 3}}};
  EXPECT_OK(ParseModelConfig(json.dump()));
}

struct Refusal {
  const char* name;
  std::function<void(Json& root)> change;  // Of the flat dialect.
  absl::StatusCode code;
  const char* message;
};

class ParseModelConfigRefuses : public testing::TestWithParam<Refusal> {};

TEST_P(ParseModelConfigRefuses, NamingWhatIsWrong) {
  Json json = Flat();
  GetParam().change(json);
  EXPECT_THAT(ParseModelConfig(json.dump()),
              StatusIs(GetParam().code, HasSubstr(GetParam().message)));
}

Refusal Set(const char* name, const char* key, Json value, const char* message,
            absl::StatusCode code = kInvalid) {
  return {name, [key, value](Json& root) { root[key] = value; }, code, message};
}

// The block-FP8 release's quantization_config with one member changed.
Refusal Fp8With(const char* name, const char* key, Json value,
                const char* message) {
  Json quantization = Fp8()["quantization_config"];
  quantization[key] = std::move(value);
  return Set(name, "quantization_config", quantization, message, kLater);
}

INSTANTIATE_TEST_SUITE_P(
    Dialects, ParseModelConfigRefuses,
    testing::Values(
        Set("UnknownModel", "model_type", "llama",
            "model_type is \"llama\"; must be one of \"qwen3_5_moe\", "
            "\"qwen3_5_moe_text\", \"qwen3_next\", \"qwen3_5\", "
            "\"qwen3_5_text\""),
        Set("ModelTypeOfAnotherKind", "model_type", 7, "model_type is 7"),
        Refusal{"NoModelType", [](Json& root) { root.erase("model_type"); },
                kInvalid, "model_type is absent"},
        Set("NestedWithoutText", "model_type", "qwen3_5_moe",
            "text_config is null"),
        Fp8With("Fp8OfOneScale", "weight_block_size", nullptr,
                "quantization_config.weight_block_size is absent, which is "
                "not served; must be [128,128]"),
        Fp8With("Fp8OfOtherBlocks", "weight_block_size", {64, 128},
                "weight_block_size is [64,128], which is not served"),
        Fp8With("Fp8OfABlockThatIsNone", "weight_block_size", 128,
                "weight_block_size is 128, which"),
        Fp8With("Fp8OfStaticActivations", "activation_scheme", "static",
                "quantization_config.activation_scheme is \"static\", which is "
                "not served; must be \"dynamic\""),
        Fp8With("Fp8OfAnotherFormat", "fmt", "e5m2", "fmt is \"e5m2\""),
        Set("QuantisedNobodyKnowsHow", "quantization_config", {{"bits", 4}},
            "quantization_config.quant_method is absent", kLater),
        Set("Gptq", "quantization_config", {{"quant_method", "gptq"}},
            "use the block-FP8 or the bf16 release", kLater),
        Set("Awq", "quantization_config", {{"quant_method", "awq"}}, "\"awq\"",
            kLater),
        Set("Modelopt", "quantization_config", {{"quant_method", "modelopt"}},
            "\"modelopt\"", kLater),
        Set("CompressedTensors", "quantization_config",
            {{"quant_method", "compressed-tensors"}}, "\"compressed-tensors\"",
            kLater),
        Set("CodesOfAnotherArithmetic", "quantization_config",
            {{"quant_method", "phalanx"}, {"weights", "int8"}, {"version", 2}},
            "quantization_config.version is 2; must be 1", kLater),
        Set("CodesOfAnotherFormat", "quantization_config",
            {{"quant_method", "phalanx"}, {"weights", "int3"}, {"version", 1}},
            "quantization_config.weights is \"int3\"; must be \"int8\""),
        Set("CodesOfAnUnreadableDigest", "quantization_config",
            {{"quant_method", "phalanx"},
             {"weights", "int8"},
             {"version", 1},
             {"source_digest", "A0"}},
            "quantization_config.source_digest is \"A0\"; must be 64 "
            "hexadecimal digits"),
        Set("SigmoidGate", "output_gate_type", "sigmoid",
            "output_gate_type is \"sigmoid\", which is not served yet; must be "
            "\"silu\" or \"swish\"",
            kLater),
        Set("UnknownGate", "output_gate_type", "tanh",
            "output_gate_type is \"tanh\""),
        Refusal{"Yarn",
                [](Json& r) { r["rope_parameters"]["rope_type"] = "yarn"; },
                kLater, "rope_parameters.rope_type is \"yarn\""},
        Refusal{"UnknownRope",
                [](Json& r) { r["rope_parameters"]["rope_type"] = "spiral"; },
                kInvalid, "rope_parameters.rope_type is \"spiral\"; must be"},
        Set("Bias", "attention_bias", true, "attention_bias is true"),
        Set("Gelu", "hidden_act", "gelu", "hidden_act is \"gelu\""),
        Set("NoGate", "attn_output_gate", false, "attn_output_gate is false"),
        Set("DenseLayers", "mlp_only_layers", {1}, "mlp_only_layers is [1]"),
        Set("SparseStep", "decoder_sparse_step", 2,
            "decoder_sparse_step is 2")),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Values, ParseModelConfigRefuses,
    testing::Values(
        Refusal{"NoHidden", [](Json& r) { r.erase("hidden_size"); }, kInvalid,
                "hidden_size is absent; it is required"},
        Set("ZeroHidden", "hidden_size", 0,
            "hidden_size is 0; must be an integer in 2..131072"),
        Set("OddHidden", "hidden_size", 81, "hidden_size is 81"),
        Set("HugeHidden", "hidden_size", 1000000000000, "hidden_size is"),
        Set("UnsignedHidden", "hidden_size", 18446744073709551615ull,
            "hidden_size is 18446744073709551615"),
        Set("FractionalHidden", "hidden_size", 80.5, "hidden_size is 80.5"),
        Set("TextHidden", "hidden_size", "80", "hidden_size is \"80\""),
        Set("NegativeVocab", "vocab_size", -1, "vocab_size is -1"),
        Set("HugeVocab", "vocab_size", 1 << 25, "vocab_size is 33554432"),
        Set("HugeLayers", "num_hidden_layers", 1000000000,
            "num_hidden_layers is 1000000000"),
        Set("HugeExperts", "num_experts", 1 << 20, "num_experts is 1048576"),
        Set("HugeHeads", "num_attention_heads", 4096,
            "num_attention_heads is 4096"),
        Set("ZeroPositions", "max_position_embeddings", 0,
            "max_position_embeddings is 0"),
        Set("ZeroEps", "rms_norm_eps", 0, "rms_norm_eps is 0"),
        Set("NarrowConv", "linear_conv_kernel_dim", 1,
            "linear_conv_kernel_dim is 1; must be an integer in 2..16"),
        Set("TiedText", "tie_word_embeddings", "yes",
            "tie_word_embeddings is \"yes\"; must be true or false"),
        Set("KvHeads", "num_key_value_heads", 4,
            "num_attention_heads is 6; must be a multiple of "
            "num_key_value_heads=4"),
        Set("GdnHeads", "linear_num_key_heads", 4,
            "linear_num_value_heads is 6; must be a multiple of "
            "linear_num_key_heads=4"),
        Set("ZeroTopK", "num_experts_per_tok", 0, "num_experts_per_tok is 0"),
        Set("TopKAboveExperts", "num_experts_per_tok", 13,
            "num_experts_per_tok is 13; must be 1..num_experts=12"),
        Refusal{"AttentionWidth",
                [](Json& r) {
                  r["num_attention_heads"] = r["num_key_value_heads"] = 3;
                },
                kInvalid,
                "num_attention_heads * head_dim is 72; must be a "
                "multiple of 16"},
        Set("ExpertWidth", "moe_intermediate_size", 100,
            "moe_intermediate_size is 100; must be a multiple of 16"),
        Set("SharedWidth", "shared_expert_intermediate_size", 40,
            "shared_expert_intermediate_size is 40"),
        Set("GdnWidth", "linear_value_head_dim", 20,
            "linear_num_value_heads * linear_value_head_dim is 120")),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Structures, ParseModelConfigRefuses,
    testing::Values(
        Set("UnknownLayer", "layer_types",
            {"full_attention", "sliding_attention", "full_attention",
             "full_attention", "full_attention"},
            "layer_types[1] is \"sliding_attention\""),
        Set("FewLayers", "layer_types", {"full_attention"},
            "must list num_hidden_layers=5 kinds"),
        Set("LayersOfAnotherKind", "layer_types", 5, "layer_types is 5"),
        Set("RopeOfAnotherKind", "rope_parameters", 5,
            "rope_parameters is 5; must be an object"),
        Refusal{"NoTheta",
                [](Json& r) { r["rope_parameters"].erase("rope_theta"); },
                kInvalid, "rope_theta is absent"},
        Refusal{"NegativeTheta",
                [](Json& r) { r["rope_parameters"]["rope_theta"] = -1; },
                kInvalid, "rope_parameters.rope_theta is -1"},
        Refusal{"WholeHeadAndMore",
                [](Json& r) {
                  r["rope_parameters"]["partial_rotary_factor"] = 1.5;
                },
                kInvalid, "partial_rotary_factor is 1.5"},
        Refusal{"OddRotary",
                [](Json& r) {
                  r["rope_parameters"]["partial_rotary_factor"] = 0.125;
                },
                kInvalid, "is 3, which must be even"}),
    [](const auto& info) { return info.param.name; });

struct BadText {
  const char* name;
  std::string text;
  const char* message;
};

class ParseModelConfigText : public testing::TestWithParam<BadText> {};

TEST_P(ParseModelConfigText, IsRefused) {
  EXPECT_THAT(ParseModelConfig(GetParam().text),
              StatusIs(kInvalid, HasSubstr(GetParam().message)));
}

INSTANTIATE_TEST_SUITE_P(
    All, ParseModelConfigText,
    testing::Values(
        BadText{"Empty", "", "not valid JSON"},
        BadText{"Cut", "{\"model_type\": \"qwen3", "not valid JSON"},
        BadText{"Array", "[1]", "JSON is [1]; must be an object"},
        BadText{"InvalidUtf8", "{\"a\": \"\xff\"}", "not valid JSON"},
        BadText{"HugeNumber", "{\"a\": 1e999}", "not valid JSON"},
        BadText{"Deep", std::string(100000, '['), "nests deeper than 64"},
        BadText{"Large", std::string((8 << 20) + 1, ' '), "at most 8388608"}),
    [](const auto& info) { return info.param.name; });

// Bytes changed and removed at random places: refused or read, never worse.
TEST(ParseModelConfig, SurvivesMutatedText) {
  const std::string original = Nested().dump();
  const std::string alphabet = "{}[]\",:0123456789-.enull\xff";
  std::mt19937 random(20261129);
  int accepted = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text = original;
    for (unsigned i = 0; i <= random() % 4; ++i) {
      const size_t at = random() % text.size();
      if (random() % 4 == 0)
        text.erase(at, 1 + random() % 8);
      else
        text[at] = alphabet[random() % alphabet.size()];
    }
    const auto config = ParseModelConfig(text);
    if (!config.ok()) continue;
    ++accepted;
    EXPECT_OK(MakeLocalShape(*config, 0, 1));
  }
  EXPECT_GT(accepted, 0);
}

}  // namespace
}  // namespace phalanx
