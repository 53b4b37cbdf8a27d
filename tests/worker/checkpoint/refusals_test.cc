// Every refusal of the loader, one row a rule: what is wrong with a model's
// folder, and the words that say so. In the order of model_spec.md's sections
// 1, 3 and 4; where a reader has cases of its own, they are in its own test.
// That the vocabulary has room for the tokenizer (1.8) is for the gateway to
// see: tests/gateway/router/worker_group_test.cc.

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <utility>

#include "tests/support/status_matchers.h"
#include "tests/worker/checkpoint/checkpoint_files.h"
#include "tests/worker/checkpoint/fake_backend.h"
#include "worker/checkpoint/loader.h"

namespace phalanx {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kLost = absl::StatusCode::kDataLoss;
constexpr auto kMissing = absl::StatusCode::kNotFound;
constexpr auto kLater = absl::StatusCode::kUnimplemented;

constexpr char kMoeText[] = GOLDEN_DIR "/models/moe_text";
constexpr char kMoeFp8[] = GOLDEN_DIR "/models/moe_fp8";
constexpr char kNorm[] = "model.norm.weight";
constexpr char kQProj[] = "model.layers.0.self_attn.q_proj.weight";

// A model's folder before it is written, and the group that loads it.
struct Model {
  explicit Model(const std::string& dir)
      : config(ReadJson(dir + "/config.json")), tensors(ReadTensors(dir)) {}

  Json config;
  TensorSpecs tensors;
  std::optional<std::string> config_text;   // Instead of `config`.
  std::optional<std::string> weights;       // Instead of `tensors`.
  std::map<std::string, std::string> more;  // Files beside those two.
  int rank = 0;
  int tp_size = 1;
};

// What a worker does with a folder before it joins a group.
absl::Status Load(const std::string& dir, int rank, int tp_size) {
  const auto config = LoadModelConfig(dir);
  if (!config.ok()) return config.status();
  const auto generation = LoadGenerationConfig(dir);
  if (!generation.ok()) return generation.status();
  const auto shape = MakeLocalShape(*config, rank, tp_size);
  if (!shape.ok()) return shape.status();
  const auto checkpoint = Checkpoint::Open(dir);
  if (!checkpoint.ok()) return checkpoint.status();
  FakeBackend backend;
  return LoadWeights(*checkpoint, *config, *shape, backend).status();
}

absl::Status Load(const Model& model) {
  const TempFolder folder;
  folder.Write("config.json", model.config_text.value_or(model.config.dump()));
  const std::string weights =
      model.weights.value_or(SafetensorsBytes(model.tensors));
  if (!weights.empty()) folder.Write("model.safetensors", weights);
  for (const auto& [name, bytes] : model.more) folder.Write(name, bytes);
  return Load(folder.path(), model.rank, model.tp_size);
}

struct Rule {
  const char* name;
  absl::StatusCode code;
  std::vector<std::string> words;      // The thing, its value, the limit.
  std::function<void(Model&)> change;  // Of moe_text.
};

void PrintTo(const Rule& rule, std::ostream* out) { *out << rule.name; }

class Refusals : public testing::TestWithParam<Rule> {};

TEST_P(Refusals, NameTheThingItsValueAndTheLimit) {
  Model model(kMoeText);
  GetParam().change(model);

  const absl::Status status = Load(model);

  for (const std::string& word : GetParam().words)
    EXPECT_THAT(status, StatusIs(GetParam().code, HasSubstr(word)));
}

// Where every row begins: without a change there is nothing to refuse.
TEST(Refusals, AreOfTheChangesAlone) {
  EXPECT_OK(Load(Model(kMoeText)));
  EXPECT_OK(Load(Model(kMoeFp8)));
}

Rule Key(const char* name, const char* key, Json value,
         std::vector<std::string> words, absl::StatusCode code = kInvalid) {
  return {name, code, std::move(words),
          [key, value](Model& model) { model.config[key] = value; }};
}

Rule Rope(const char* name, const char* key, Json value,
          std::vector<std::string> words, absl::StatusCode code = kInvalid) {
  return {name, code, std::move(words), [key, value](Model& model) {
            model.config["rope_parameters"][key] = value;
          }};
}

// Another group, and sizes that it needs.
Rule Tp(const char* name, int tp_size, Json sizes,
        std::vector<std::string> words) {
  return {name, kInvalid, std::move(words), [tp_size, sizes](Model& model) {
            model.config.update(sizes);
            model.tp_size = tp_size;
          }};
}

Rule Weights(const char* name, absl::StatusCode code, std::string bytes,
             std::vector<std::string> words) {
  return {name, code, std::move(words),
          [bytes](Model& model) { model.weights = bytes; }};
}

// A file of 16 bytes of data whose header lists these.
Rule Header(const char* name, const std::string& json,
            std::vector<std::string> words, absl::StatusCode code = kLost) {
  return Weights(name, code, SafetensorsBytes(json, std::string(16, 'd')),
                 std::move(words));
}

Rule Index(const char* name, absl::StatusCode code, const std::string& text,
           std::vector<std::string> words) {
  return {name, code, std::move(words), [text](Model& model) {
            model.more["model.safetensors.index.json"] = text;
          }};
}

Rule File(const char* name, const std::string& file, const std::string& text,
          std::vector<std::string> words) {
  return {name, kLater, std::move(words), [file, text](Model& model) {
            model.more[file] = text;
            if (file.find(".json") == std::string::npos) model.weights = "";
          }};
}

Rule Tensor(const char* name, const std::string& tensor,
            std::vector<std::string> words) {
  return {name, kLater, std::move(words), [tensor](Model& model) {
            model.tensors[tensor] = {"I32", {1}, "1234"};
          }};
}

Rule Tensors(const char* name, std::vector<std::string> words,
             std::function<void(TensorSpecs&)> change) {
  return {name, kLost, std::move(words),
          [change](Model& model) { change(model.tensors); }};
}

constexpr auto NameOf = [](const auto& info) { return info.param.name; };

INSTANTIATE_TEST_SUITE_P(
    Section1, Refusals,
    testing::Values(
        Key("Family", "model_type", "llama",
            {"model_type is \"llama\"", "\"qwen3_5_moe\""}),
        Key("NestedText", "model_type", "qwen3_5_moe",
            {"text_config is null", "must be an object"}),
        Key("LayerCount", "num_hidden_layers", 4,
            {"layer_types is [", "num_hidden_layers=4"}),
        Key("LayerKind", "layer_types",
            {"attention", "mamba", "attention", "attention", "attention"},
            {"layer_types[1] is \"mamba\"", "\"full_attention\""}),
        Rope("RopeType", "rope_type", "spiral",
             {"rope_parameters.rope_type is \"spiral\"", "\"default\""}),
        Rope("Yarn", "rope_type", "yarn",
             {"rope_type is \"yarn\"", "not served"}, kLater),
        Rope("NoTheta", "rope_theta", nullptr, {"rope_theta is absent"}),
        Rope("SmallTheta", "rope_theta", 0.5,
             {"rope_theta is 0.5", "from 1 to 1e+15"}),
        Rope("MropeSum", "mrope_section", {1, 1, 2},
             {"rope_parameters.mrope_section is [1,1,2]", "add up to 3"}),
        Rope("MropeOfTwo", "mrope_section", {1, 2},
             {"mrope_section is [1,2]", "three numbers"}),
        Rope("MropeNegative", "mrope_section", {-1, 2, 2},
             {"mrope_section is [-1,2,2]", "three numbers"}),
        Rope("RotaryOdd", "partial_rotary_factor", 0.125,
             {"partial_rotary_factor is 0.125", "is 3, which must be even"}),
        Rope("RotaryAboveHead", "partial_rotary_factor", 1.25,
             {"partial_rotary_factor is 1.25", "above 0 to 1"}),
        Key("QueryHeads", "num_key_value_heads", 4,
            {"num_attention_heads is 6", "num_key_value_heads=4"}),
        Key("ValueHeads", "linear_num_key_heads", 4,
            {"linear_num_value_heads is 6", "linear_num_key_heads=4"}),
        Key("ConvWidth", "linear_conv_kernel_dim", 1,
            {"linear_conv_kernel_dim is 1", "2..16"}),
        Key("NoExpertChosen", "num_experts_per_tok", 0,
            {"num_experts_per_tok is 0", "1..8192"}),
        Key("MoreChosenThanThere", "num_experts_per_tok", 13,
            {"num_experts_per_tok is 13", "1..num_experts=12"}),
        Key("Activation", "hidden_act", "gelu",
            {"hidden_act is \"gelu\"", "\"silu\""}),
        Key("Bias", "attention_bias", true,
            {"attention_bias is true", "must be false"}),
        Key("Ungated", "attn_output_gate", false,
            {"attn_output_gate is false", "must be true"}),
        Key("GateType", "output_gate_type", "sigmoid",
            {"output_gate_type is \"sigmoid\"", "\"silu\" or \"swish\""},
            kLater),
        Key("DenseLayers", "mlp_only_layers", {2},
            {"mlp_only_layers is [2]", "must be empty"}),
        Key("TinyEps", "rms_norm_eps", 1e-300,
            {"rms_norm_eps is 1e-300", "from 1e-12 to 1"}),
        Key("Eos", "eos_token_id", {1, -2},
            {"config.json: eos_token_id is [1,-2]", "token id"})),
    NameOf);

INSTANTIATE_TEST_SUITE_P(
    Section34, Refusals,
    testing::Values(
        Key("Modelopt", "quantization_config",
            {{"quant_method", "modelopt"}, {"quant_algo", "NVFP4"}},
            {"\"modelopt\"", "\"NVFP4\"", "use the block-FP8 or the bf16"},
            kLater),
        Key("ModeloptMixed", "quantization_config",
            {{"quant_algo", "MIXED_PRECISION"}},
            {"quant_method is absent", "\"MIXED_PRECISION\"", "use the"},
            kLater),
        Key("CompressedTensors", "compression_config",
            {{"quant_method", "compressed-tensors"},
             {"format", "nvfp4-pack-quantized"}},
            {"\"compressed-tensors\"", "\"nvfp4-pack-quantized\"", "use the"},
            kLater),
        Key("Gptq", "quantization_config", {{"quant_method", "gptq"}},
            {"\"gptq\"", "must be \"fp8\"", "use the"}, kLater),
        Key("Awq", "quantization_config", {{"quant_method", "awq"}},
            {"\"awq\"", "must be \"fp8\"", "use the"}, kLater),
        Key("Fp8OfOneScale", "quantization_config", {{"quant_method", "fp8"}},
            {"weight_block_size is absent", "[128,128]", "use the"}, kLater),
        File("ModeloptFile", "hf_quant_config.json",
             R"({"quantization": {"quant_algo": "NVFP4"}})",
             {"/hf_quant_config.json", "modelopt \"NVFP4\"", "use the"}),
        File("ModeloptFileThatIsNone", "hf_quant_config.json", "{",
             {"/hf_quant_config.json", "modelopt", "use the"}),
        File("GptqFile", "quantize_config.json", "{}",
             {"/quantize_config.json", "GPTQ", "use the"}),
        File("AwqFile", "quant_config.json", "{}",
             {"/quant_config.json", "AWQ", "use the"}),
        File("Gguf", "x.Q4_K_M.gguf", "GGUF",
             {"/x.Q4_K_M.gguf is a GGUF", "use the"}),
        File("Pickles", "pytorch_model.bin", "PK",
             {"/pytorch_model.bin holds pickled weights", "use the"}),
        Tensor("GptqTensor", "model.layers.0.self_attn.q_proj.qweight",
               {"tensor model.layers.0.self_attn.q_proj.qweight", "GPTQ or AWQ",
                "use the"}),
        Tensor("AwqZeros", "model.layers.0.self_attn.q_proj.qzeros",
               {"q_proj.qzeros is of GPTQ or AWQ"}),
        Tensor("GptqOrder", "model.layers.0.self_attn.q_proj.g_idx",
               {"q_proj.g_idx is of GPTQ"}),
        Tensor("Packed", "model.layers.0.self_attn.q_proj.weight_packed",
               {"weight_packed is of compressed-tensors"}),
        Tensor("GlobalScale", "lm_head.weight_global_scale",
               {"lm_head.weight_global_scale is of compressed-tensors NVFP4"}),
        Tensor("SecondScale", "lm_head.weight_scale_2",
               {"lm_head.weight_scale_2 is of modelopt NVFP4"})),
    NameOf);

std::string EntryOf(const std::string& dtype, const std::string& shape,
                    const std::string& offsets) {
  return "{\"t\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
         ",\"data_offsets\":" + offsets + "}}";
}

// A length of the header as the file has it, and no header.
std::string Length(uint64_t length) {
  std::string bytes(8, '\0');
  for (size_t i = 0; i < 8; ++i)
    bytes[i] = static_cast<char>(length >> (8 * i));
  return bytes + "{}";
}

INSTANTIATE_TEST_SUITE_P(
    Section36Files, Refusals,
    testing::Values(
        Index("IndexCut", kInvalid, "{\"weight_map\": {",
              {"/model.safetensors.index.json", "not valid JSON at byte"}),
        Index("IndexWithoutMap", kInvalid, "{}", {"weight_map is absent"}),
        Index("IndexWithoutFiles", kInvalid, R"({"weight_map": {}})",
              {"weight_map names 0 files", "1..4096"}),
        Index("IndexOutside", kInvalid,
              R"({"weight_map": {"a": "../model.safetensors"}})",
              {"weight_map[\"a\"] is \"../model.safetensors\"",
               "plain name of a .safetensors file"}),
        Index("IndexTwice", kInvalid,
              R"({"weight_map": {"a": "x.safetensors", "a": "x.safetensors"}})",
              {"weight_map has \"a\" twice"}),
        Index("FileMissing", kMissing,
              R"({"weight_map": {"a": "model.safetensors",
                                 "b": "2.safetensors"}})",
              {"1 of 2 files", "missing: 2.safetensors"}),
        Index("TensorOfTheIndexMissing", kLost,
              R"({"weight_map": {"a": "model.safetensors"}})",
              {"1 tensors are not in the files", "a (model.safetensors)"}),
        Weights("NoFile", kMissing, "",
                {"neither model.safetensors.index.json nor model.safetensors"}),
        Weights("Stub", kLost, "1234567",
                {"/model.safetensors", "has 7 bytes", "needs 8"}),
        Weights("HeaderOf2To63", kInvalid, Length(uint64_t{1} << 63),
                {"header length is 9223372036854775808", "104857600"}),
        Weights("HeaderOfAllOnes", kInvalid, Length(~uint64_t{0}),
                {"header length is 18446744073709551615", "104857600"}),
        Weights("HeaderAboveTheLimit", kInvalid, Length((100 << 20) + 1),
                {"header length is 104857601", "at most 104857600"}),
        Weights("HeaderLongerThanTheFile", kLost, Length(3),
                {"header length is 3", "has 2 bytes after it"}),
        Header("HeaderNoJson", "{\"t\":", {"not valid JSON at byte"}),
        Header("NameTwice",
               R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},
                   "t":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
               {"tensor t is there twice"}),
        Header("UnknownType", EntryOf("Q8_0", "[1]", "[0,1]"),
               {"tensor t: dtype \"Q8_0\" is unknown"}, kInvalid),
        Header("PastTheEnd", EntryOf("U8", "[17]", "[0,17]"),
               {"tensor t: data_offsets are [0,17]", "16 bytes"}),
        Header("Backwards", EntryOf("U8", "[1]", "[2,1]"),
               {"data_offsets are [2,1]"}),
        Header("OffsetOf2To63", EntryOf("U8", "[1]", "[0,9223372036854775808]"),
               {"data_offsets are [0,9223372036854775808]", "16 bytes"}),
        Header("NegativeSize", EntryOf("U8", "[-1]", "[0,1]"),
               {"tensor t: shape is the number -1"}),
        Header("BytesOfTheShape", EntryOf("BF16", "[2,4]", "[0,8]"),
               {"hold 8 bytes", "[2,4] of BF16 needs 16"}),
        Header("ShapeOf2To64",
               EntryOf("U8", "[4294967296,4294967296]", "[0,0]"),
               {"shape [4294967296,4294967296] of U8", "no such number"}),
        Header("Overlap",
               R"({"t":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},
                   "u":{"dtype":"U8","shape":[8],"data_offsets":[7,15]}})",
               {"tensor u: data_offsets begin at 7", "inside tensor t"})),
    NameOf);

INSTANTIATE_TEST_SUITE_P(
    Section36Tensors, Refusals,
    testing::Values(
        Tensors("Missing", {"1 missing (model.norm.weight)"},
                [](TensorSpecs& t) { t.erase(kNorm); }),
        Tensors("Unexpected", {"1 unexpected (model.layers.0.mlp.bias)"},
                [](TensorSpecs& t) {
                  t["model.layers.0.mlp.bias"] = {"BF16", {1}, "xx"};
                }),
        Tensors("Shape", {"is BF16 [80,288]", "must be BF16 [288,80]"},
                [](TensorSpecs& t) {
                  t[kQProj].shape = {80, 288};
                }),
        Tensors("Type", {"is F16 [80]", "must be BF16 [80]"},
                [](TensorSpecs& t) { t[kNorm].dtype = "F16"; }),
        Tensors("ScaleOfNoFp8", {"1 unexpected", "q_proj.weight_scale_inv"},
                [](TensorSpecs& t) {
                  t[std::string(kQProj) + "_scale_inv"] = {"BF16", {1}, "xx"};
                }),
        Tensors("AllKindsAtOnce",
                {"2 missing (model.layers.0.input_layernorm.weight, "
                 "model.layers.0.self_attn.q_proj.weight)",
                 "2 unexpected (strange, stranger)",
                 "2 of a wrong shape or type (model.embed_tokens.weight is "
                 "BF16 [80,512], must be BF16 [512,80], model.norm.weight is "
                 "F16 [80], must be BF16 [80])"},
                [](TensorSpecs& t) {
                  t.erase(kQProj);
                  t.erase("model.layers.0.input_layernorm.weight");
                  t["strange"] = t["stranger"] = {"BF16", {1}, "xx"};
                  t[kNorm].dtype = "F16";
                  t["model.embed_tokens.weight"].shape = {80, 512};
                })),
    NameOf);

INSTANTIATE_TEST_SUITE_P(
    Section41, Refusals,
    testing::Values(
        Tp("QueryHeadsOverRanks", 4, Json::object(),
           {"num_attention_heads=6", "tp_size=4", "tp_size 1, 2"}),
        Tp("KeyHeadsOverRanks", 2, {{"linear_num_key_heads", 3}},
           {"linear_num_key_heads=3", "tp_size=2", "tp_size 1"}),
        Tp("ValueHeadsOverRanks", 4,
           {{"num_attention_heads", 8},
            {"linear_num_key_heads", 2},
            {"linear_num_value_heads", 6}},
           {"linear_num_key_heads=2", "tp_size=4", "tp_size 1, 2"}),
        Tp("ExpertsOverRanks", 3,
           {{"linear_num_key_heads", 6}, {"moe_intermediate_size", 64}},
           {"moe_intermediate_size=64", "tp_size=3", "tp_size 1, 2"}),
        Tp("SharedExpertOverRanks", 3,
           {{"linear_num_key_heads", 6},
            {"shared_expert_intermediate_size", 64}},
           {"shared_expert_intermediate_size=64", "tp_size=3"}),
        Tp("KvHeadsOverRanks", 2, {{"num_key_value_heads", 3}},
           {"num_key_value_heads=3", "tp_size=2", "tp_size 1"}),
        Tp("RanksOverKvHeads", 3, {{"linear_num_key_heads", 6}},
           {"tp_size=3", "num_key_value_heads=2", "tp_size 1, 2"}),
        Tp("Slices", 3,
           {{"linear_num_key_heads", 6}, {"num_key_value_heads", 3}},
           {"tp_size=3", "8 slices", "tp_size 1"}),
        Rule{"Rank",
             kInvalid,
             {"rank is 2", "0..1"},
             [](Model& model) {
               model.tp_size = 2;
               model.rank = 2;
             }}),
    NameOf);

TEST(RefusalsOfFp8, NameTheScalesThatAreMissing) {
  Model model(kMoeFp8);
  const std::string scale =
      "model.language_model.layers.0.linear_attn.in_proj_qkv.weight_scale_inv";
  ASSERT_EQ(model.tensors.erase(scale), 1u);
  EXPECT_THAT(Load(model), StatusIs(kLost, HasSubstr("1 missing (" + scale)));
}

TEST(RefusalsOfGguf, NameAFileThatIsNoFolder) {
  EXPECT_THAT(Load("/models/x.gguf", 0, 1),
              StatusIs(kLater, HasSubstr("/models/x.gguf is a GGUF")));
}

}  // namespace
}  // namespace phalanx
