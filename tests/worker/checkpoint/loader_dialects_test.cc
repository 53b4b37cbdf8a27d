// What is particular to block-FP8 releases, to Qwen3-Next and to types and
// files that releases choose freely; that they come to the same weights as
// plain files is in loader_test.cc.

#include <gtest/gtest.h>

#include <functional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/checkpoint/checkpoint_files.h"
#include "tests/worker/checkpoint/fake_backend.h"
#include "tests/worker/checkpoint/packed_bytes.h"
#include "tests/worker/checkpoint/plain_tensors.h"
#include "worker/checkpoint/loader.h"

namespace phalanx {
namespace {

using testing::HasSubstr;

constexpr char kFp8[] = GOLDEN_DIR "/models/moe_fp8";
constexpr char kNext[] = GOLDEN_DIR "/models/next";

// Loads rank 0 of 1; the weights live as long as `backend`.
absl::StatusOr<Weights> LoadWhole(const Checkpoint& checkpoint,
                                  const ModelConfig& config, Backend& backend) {
  const auto shape = MakeLocalShape(config, 0, 1);
  if (!shape.ok()) return shape.status();
  return LoadWeights(checkpoint, config, *shape, backend);
}

std::string ConfigOf(const std::string& model_dir) {
  return ReadBytes(model_dir + "/config.json");
}

std::string Fp8ConfigWithoutAWord() {
  nlohmann::json config = ReadJson(std::string(kFp8) + "/config.json");
  config.erase("quantization_config");
  return config.dump();
}

// --- Qwen3-Next ------------------------------------------------------------

class NextConverted : public testing::Test {
 protected:
  void SetUp() override {
    const auto config = LoadModelConfig(kNext);
    ASSERT_OK(config);
    config_ = *config;
    const auto checkpoint = Checkpoint::Open(kNext);
    ASSERT_OK(checkpoint);
    auto weights = LoadWhole(*checkpoint, config_, backend_);
    ASSERT_OK(weights);
    weights_ = *std::move(weights);
  }

  std::string Golden(size_t layer, const std::string& name) const {
    return golden_.at(absl::StrCat("model.layers.", layer, ".", name))
        .at("sha256");
  }

  const nlohmann::json golden_ = ReadJson(GOLDEN_DIR "/tp/next_converted.json");
  ModelConfig config_;
  FakeBackend backend_;
  Weights weights_;
};

TEST_F(NextConverted, HasTheGoldenRowsOfTheInputProjection) {
  const int64_t heads = config_.linear_num_value_heads;
  const int64_t values = heads * config_.linear_value_head_dim;
  const int64_t qkv =
      2 * config_.linear_num_key_heads * config_.linear_key_head_dim + values;
  int compared = 0;
  for (size_t i = 0; i < weights_.layers.size(); ++i) {
    const auto* gdn = std::get_if<GdnWeights>(&weights_.layers[i].mixer);
    if (gdn == nullptr) continue;
    const struct {
      const char* name;
      const PackedWeight& weight;
      int64_t first_row;
      int64_t rows;
    } parts[] = {{"qkv", gdn->in_proj, 0, qkv},
                 {"z", gdn->in_proj, qkv, values},
                 {"b", gdn->ba_proj, 0, heads},
                 {"a", gdn->ba_proj, heads, heads}};
    for (const auto& [name, weight, first_row, rows] : parts) {
      EXPECT_EQ(
          Sha256(BytesOf(weight, first_row, rows)),
          Golden(i, absl::StrCat("linear_attn.in_proj_", name, ".weight")))
          << i << " " << name;
      ++compared;
    }
    EXPECT_EQ(gdn->in_proj.rows, qkv + values);
    EXPECT_EQ(gdn->ba_proj.rows, 2 * heads);
  }
  EXPECT_EQ(compared, 12);
}

TEST_F(NextConverted, HasTheGoldenFusedExperts) {
  for (size_t i = 0; i < weights_.layers.size(); ++i) {
    const auto& moe = std::get<MoeWeights>(weights_.layers[i].feed_forward);
    EXPECT_EQ(Sha256(BytesOf(moe.experts_gate_up)),
              Golden(i, "mlp.experts.gate_up_proj"));
    EXPECT_EQ(Sha256(BytesOf(moe.experts_down)),
              Golden(i, "mlp.experts.down_proj"));
  }
}

TEST(LoadNext, RefusesTheOtherLayoutOfTheInputProjection) {
  EXPECT_THAT(
      LoadPacked(ReadPlainTensors(kNext), ConfigOf(kNext)),
      StatusIs(absl::StatusCode::kDataLoss,
               testing::AllOf(
                   HasSubstr("6 missing (model.layers.0.linear_attn."
                             "in_proj_qkvz.weight, model.layers.0.linear_attn."
                             "in_proj_ba.weight"),
                   HasSubstr("12 unexpected"))));
}

// Blocks straddle what belongs to one key head.
TEST(LoadNext, GathersRowsOfFp8) {
  const std::string name = "model.layers.0.linear_attn.in_proj_qkvz.weight";
  TensorSpecs tensors = ReadTensors(kNext);
  TensorSpec& weight = tensors.at(name);
  weight.dtype = "F8_E4M3";
  weight.data.resize(weight.data.size() / 2);
  for (size_t i = 0; i < weight.data.size(); ++i)
    weight.data[i] = static_cast<char>(i * 7 % 127);
  // 1, 2 and 4 in bf16.
  tensors[name + "_scale_inv"] = {
      "BF16", {3, 1}, std::string("\x80\x3f\x00\x40\x80\x40", 6)};
  nlohmann::json config = ReadJson(std::string(kNext) + "/config.json");
  config["quantization_config"] =
      ReadJson(std::string(kFp8) + "/config.json")["quantization_config"];
  const auto fp8 = LoadPacked(tensors, config.dump());
  ASSERT_OK(fp8);

  const TempFolder folder;
  folder.Write("model.safetensors", SafetensorsBytes(tensors));
  folder.Write("config.json", config.dump());
  config["model_type"] = "qwen3_5_moe_text";
  const auto plain = LoadPacked(ReadPlainTensors(folder.path()), config.dump());
  ASSERT_OK(plain);
  EXPECT_EQ(*fp8, *plain);
}

// --- Block FP8 -------------------------------------------------------------

constexpr char kOProj[] =
    "model.language_model.layers.1.self_attn.o_proj.weight";
constexpr char kOScale[] =
    "model.language_model.layers.1.self_attn.o_proj.weight_scale_inv";

TEST(LoadFp8, ReadsScalesFromAnotherFileThanTheirWeight) {
  const auto files = ReadJson(std::string(kFp8) +
                              "/model.safetensors.index.json")["weight_map"];
  int apart = 0;
  for (const auto& [name, file] : files.items()) {
    const auto scale = files.find(name + "_scale_inv");
    apart += scale != files.end() && *scale != file ? 1 : 0;
  }
  EXPECT_GT(apart, 0);
  const auto config = LoadModelConfig(kFp8);
  ASSERT_OK(config);
  const auto checkpoint = Checkpoint::Open(kFp8);
  ASSERT_OK(checkpoint);
  FakeBackend backend;
  EXPECT_OK(LoadWhole(*checkpoint, *config, backend));
}

TEST(LoadFp8, IsTheSameAsTheWeightsRoundedToBf16) {
  const auto fp8 = LoadPacked(ReadTensors(kFp8), ConfigOf(kFp8));
  const auto bf16 = LoadPacked(ReadPlainTensors(kFp8), Fp8ConfigWithoutAWord());
  ASSERT_OK(fp8);
  ASSERT_OK(bf16);
  EXPECT_EQ(*fp8, *bf16);
}

// Whatever modules_to_not_convert says.
TEST(LoadFp8, DecidesTensorByTensor) {
  TensorSpecs mixed = ReadTensors(kFp8);
  const auto expected = LoadPacked(mixed, ConfigOf(kFp8));
  mixed[kOProj] = ReadPlainTensors(kFp8).at(kOProj);
  mixed.erase(kOScale);
  const auto loaded = LoadPacked(mixed, ConfigOf(kFp8));
  ASSERT_OK(expected);
  ASSERT_OK(loaded);
  EXPECT_EQ(*loaded, *expected);
}

// A first tensor of one byte shifts all others to odd addresses, under one of
// two names that differ by a byte.
TEST(LoadFp8, ReadsScalesAtOddAddresses) {
  TensorSpecs tensors = ReadTensors(kFp8);
  const auto expected = LoadPacked(tensors, ConfigOf(kFp8));
  ASSERT_OK(expected);
  for (const char* name : {"a.k_scale", "aa.k_scale"}) {
    TensorSpecs shifted = tensors;
    shifted[name] = {"U8", {1}, "x"};
    const auto loaded = LoadPacked(shifted, ConfigOf(kFp8));
    ASSERT_OK(loaded);
    EXPECT_EQ(*loaded, *expected);
  }
}

TEST(LoadFp8, TakesANaNForAWeight) {
  TensorSpecs tensors = ReadTensors(kFp8);
  tensors[kOProj].data[0] = '\x7f';
  EXPECT_OK(LoadPacked(tensors, ConfigOf(kFp8)));
}

TEST(LoadFp8, RefusesFp8WhereTheConfigHasNone) {
  EXPECT_THAT(
      LoadPacked(ReadTensors(kFp8), Fp8ConfigWithoutAWord()),
      StatusIs(absl::StatusCode::kDataLoss,
               testing::AllOf(
                   HasSubstr("_scale_inv"), HasSubstr(" unexpected ("),
                   HasSubstr("is F8_E4M3 ["), HasSubstr("must be BF16 ["))));
}

struct Refusal {
  const char* name;
  std::function<void(TensorSpecs&)> change;  // Of moe_fp8.
  std::string message;
};

class LoadFp8Refuses : public testing::TestWithParam<Refusal> {};

TEST_P(LoadFp8Refuses, NamingTheTensor) {
  TensorSpecs tensors = ReadTensors(kFp8);
  GetParam().change(tensors);
  EXPECT_THAT(
      LoadPacked(tensors, ConfigOf(kFp8)),
      StatusIs(absl::StatusCode::kDataLoss, HasSubstr(GetParam().message)));
}

INSTANTIATE_TEST_SUITE_P(
    All, LoadFp8Refuses,
    testing::Values(
        Refusal{"NoScale", [](TensorSpecs& t) { t.erase(kOScale); },
                absl::StrCat("tensors: 1 missing (", kOScale, ")")},
        Refusal{"NoWeight", [](TensorSpecs& t) { t.erase(kOProj); },
                absl::StrCat("tensors: 1 missing (", kOProj,
                             "); 1 unexpected (", kOScale, ")")},
        Refusal{"ScaleOfAnotherShape",
                [](TensorSpecs& t) {
                  t[kOScale] = TensorSpec{"BF16", {2, 1}, "xxxx"};
                },
                absl::StrCat("tensors: 1 of a wrong shape or type (", kOScale,
                             " is BF16 [2,1], must be BF16 [2,2])")},
        Refusal{"ScaleOfAnotherType",
                [](TensorSpecs& t) {
                  t[kOScale] = TensorSpec{"F32", {2, 2}, std::string(16, 'x')};
                },
                absl::StrCat(kOScale, " is F32 [2,2], must be BF16 [2,2]")},
        Refusal{"ScaleBesideBf16",
                [](TensorSpecs& t) {
                  t[kOProj].dtype = "BF16";
                  t[kOProj].data += t[kOProj].data;
                },
                absl::StrCat(kOProj,
                             " is BF16 [256,256], must be F8_E4M3 [256,256]")},
        Refusal{"AnotherFp8",
                [](TensorSpecs& t) { t[kOProj].dtype = "F8_E5M2"; },
                absl::StrCat(kOProj, " is F8_E5M2 [256,256], must be F8_E4M3")},
        Refusal{"WeightOfAnotherShape",
                [](TensorSpecs& t) {
                  t[kOProj].shape = {128, 512};
                },
                absl::StrCat(kOProj,
                             " is F8_E4M3 [128,512], must be F8_E4M3 "
                             "[256,256]")},
        Refusal{"ScaleOfANorm",
                [](TensorSpecs& t) {
                  t["model.language_model.layers.1.input_layernorm.weight_"
                    "scale_inv"] = TensorSpec{"BF16", {2}, "xxxx"};
                },
                "1 unexpected (model.language_model.layers.1.input_layernorm."
                "weight_scale_inv)"},
        Refusal{"Fp8Embeddings",
                [](TensorSpecs& t) {
                  TensorSpec& head = t["lm_head.weight"];
                  head.dtype = "F8_E4M3";
                  head.data.resize(head.data.size() / 2);
                },
                "lm_head.weight is F8_E4M3 [512,256], must be BF16 [512,256]"}),
    [](const auto& info) { return info.param.name; });

// --- Types and files -------------------------------------------------------

// The same values in F32, and values cut to bf16.
TensorSpec InF32(const TensorSpec& bf16) {
  TensorSpec out = {"F32", bf16.shape, ""};
  for (size_t i = 0; i < bf16.data.size(); i += 2)
    out.data += std::string(2, '\0') + bf16.data.substr(i, 2);
  return out;
}

TensorSpec InBf16(const TensorSpec& f32) {
  TensorSpec out = {"BF16", f32.shape, ""};
  for (size_t i = 0; i < f32.data.size(); i += 4)
    out.data += f32.data.substr(i + 2, 2);
  return out;
}

// A_log and the gated norm of every delta net of rank 1 of 2.
absl::StatusOr<std::vector<float>> LoadVectors(const TensorSpecs& tensors,
                                               const std::string& config) {
  const TempFolder folder;
  folder.Write("model.safetensors", SafetensorsBytes(tensors));
  const auto parsed = ParseModelConfig(config);
  if (!parsed.ok()) return parsed.status();
  const auto shape = MakeLocalShape(*parsed, 1, 2);
  if (!shape.ok()) return shape.status();
  const auto checkpoint = Checkpoint::Open(folder.path());
  if (!checkpoint.ok()) return checkpoint.status();
  FakeBackend backend;
  const auto weights = LoadWeights(*checkpoint, *parsed, *shape, backend);
  if (!weights.ok()) return weights.status();
  std::vector<float> values;
  for (const LayerWeights& layer : weights->layers) {
    const auto* gdn = std::get_if<GdnWeights>(&layer.mixer);
    if (gdn == nullptr) continue;
    for (const Tensor& tensor : {gdn->a_log, gdn->norm}) {
      const auto* data = static_cast<const float*>(tensor.data);
      values.insert(values.end(), data, data + tensor.elements());
    }
  }
  return values;
}

struct TypesCase {
  const char* name;
  const char* model_dir;
};

class LoadTypes : public testing::TestWithParam<TypesCase> {};

TEST_P(LoadTypes, ReadsALogAndTheGatedNormInF32AndBf16Alike) {
  const std::string config = ConfigOf(GetParam().model_dir);
  TensorSpecs in_bf16 = ReadTensors(GetParam().model_dir);
  TensorSpecs in_f32 = in_bf16;
  int turned = 0;
  for (auto& [name, tensor] : in_bf16) {
    if (IsSkippedTensor(name) ||
        (!absl::EndsWith(name, ".A_log") &&
         !absl::EndsWith(name, ".linear_attn.norm.weight")))
      continue;
    if (tensor.dtype == "F32") tensor = InBf16(tensor);
    in_f32[name] = InF32(tensor);
    ++turned;
  }

  const auto bf16 = LoadVectors(in_bf16, config);
  const auto f32 = LoadVectors(in_f32, config);

  EXPECT_GT(turned, 0);
  ASSERT_OK(bf16);
  ASSERT_OK(f32);
  EXPECT_EQ(*bf16, *f32);
}

constexpr char kMoe[] = GOLDEN_DIR "/models/moe";

INSTANTIATE_TEST_SUITE_P(
    All, LoadTypes,
    testing::Values(TypesCase{"Nested", kMoe},
                    TypesCase{"Flat", GOLDEN_DIR "/models/moe_text"},
                    TypesCase{"Fp8", kFp8}, TypesCase{"Next", kNext},
                    TypesCase{"Dense", GOLDEN_DIR "/models/dense"}),
    [](const auto& info) { return info.param.name; });

TEST(LoadFiles, ReadsOneFileAndFilesWithAnIndexAlike) {
  const TensorSpecs tensors = ReadTensors(kMoe);
  TensorSpecs parts[2];
  nlohmann::json index = {{"weight_map", nlohmann::json::object()}};
  size_t count = 0;
  for (const auto& [name, tensor] : tensors) {
    const size_t part = count++ % 2;
    parts[part][name] = tensor;
    index["weight_map"][name] = absl::StrCat(part, ".safetensors");
  }
  const TempFolder folder;
  for (size_t part : {0, 1})
    folder.Write(absl::StrCat(part, ".safetensors"),
                 SafetensorsBytes(parts[part]));
  folder.Write("model.safetensors.index.json", index.dump());
  const auto config = LoadModelConfig(kMoe);
  ASSERT_OK(config);
  const auto checkpoint = Checkpoint::Open(folder.path());
  ASSERT_OK(checkpoint);
  FakeBackend backend;

  const auto indexed = LoadWhole(*checkpoint, *config, backend);

  const auto single = LoadPacked(tensors, ConfigOf(kMoe));
  ASSERT_OK(indexed);
  ASSERT_OK(single);
  EXPECT_EQ(PackedBytes(*indexed), *single);
}

}  // namespace
}  // namespace phalanx
