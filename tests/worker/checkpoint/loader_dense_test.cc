// Dense models: their MLP, and that FP8, prefixes and tied embeddings mean the
// same to them. What they share with models of experts is in loader_test.cc.

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

constexpr char kDense[] = GOLDEN_DIR "/models/dense";
constexpr int64_t kWidth = 192;  // Of its MLP.

nlohmann::json DenseConfig() {
  return ReadJson(std::string(kDense) + "/config.json");
}

struct Loaded {
  FakeBackend backend;
  Weights weights;
};

absl::Status Load(const std::string& model_dir, int rank, int tp_size,
                  Loaded* out) {
  const auto config = LoadModelConfig(model_dir);
  if (!config.ok()) return config.status();
  const auto shape = MakeLocalShape(*config, rank, tp_size);
  if (!shape.ok()) return shape.status();
  const auto checkpoint = Checkpoint::Open(model_dir);
  if (!checkpoint.ok()) return checkpoint.status();
  auto weights = LoadWeights(*checkpoint, *config, *shape, out->backend);
  if (!weights.ok()) return weights.status();
  out->weights = *std::move(weights);
  return absl::OkStatus();
}

class LoadDense : public testing::TestWithParam<int> {};

TEST_P(LoadDense, CutsGateAndUpByRowsAndDownByColumns) {
  const TensorSpecs tensors = ReadTensors(kDense);
  const int64_t width = kWidth / GetParam();
  for (int rank = 0; rank < GetParam(); ++rank) {
    Loaded loaded;
    ASSERT_OK(Load(kDense, rank, GetParam(), &loaded));
    const std::vector<Range> mine = {{rank * width, (rank + 1) * width}};
    for (size_t i = 0; i < loaded.weights.layers.size(); ++i) {
      const std::string where = absl::StrCat("model.layers.", i, ".mlp.");
      const auto slice = [&](const char* name, int dim) {
        return SliceBytes(tensors.at(where + name + ".weight"),
                          {.dim = dim, .ranges = mine});
      };
      const auto& mlp =
          std::get<MlpWeights>(loaded.weights.layers[i].feed_forward);
      EXPECT_EQ(mlp.gate_up.layout, WeightLayout::kGateUp);
      EXPECT_EQ(BytesOf(mlp.gate_up),
                slice("gate_proj", 0) + slice("up_proj", 0))
          << "rank " << rank << " layer " << i;
      EXPECT_EQ(mlp.down.layout, WeightLayout::kPlain);
      EXPECT_EQ(BytesOf(mlp.down), slice("down_proj", 1))
          << "rank " << rank << " layer " << i;
    }
  }
}

TEST_P(LoadDense, HoldsTheMlpAsAComponentOfItsOwn) {
  Loaded loaded;
  ASSERT_OK(Load(kDense, 0, GetParam(), &loaded));

  EXPECT_EQ(loaded.backend.allocated_bytes(MemoryComponent::kMlp),
            4 * 3 * 64 * kWidth / GetParam() * 2);
  EXPECT_EQ(loaded.weights.expert_bytes, 0);
  EXPECT_EQ(loaded.backend.allocated_bytes(MemoryComponent::kRoutedExperts), 0);
}

// The dense model with all its large matrices but one in FP8, under the
// block-FP8 release's quantization_config.
struct Fp8Model {
  TensorSpecs tensors = ReadTensors(kDense);
  nlohmann::json config = DenseConfig();

  Fp8Model() {
    config["quantization_config"] = ReadJson(
        GOLDEN_DIR "/models/moe_fp8/config.json")["quantization_config"];
    const TensorSpecs plain = tensors;
    for (const auto& [name, tensor] : plain)
      if (absl::EndsWith(name, "_proj.weight") ||
          absl::EndsWith(name, "in_proj_qkv.weight"))
        Quantise(name);
    tensors["model.layers.1.mlp.up_proj.weight"] =
        plain.at("model.layers.1.mlp.up_proj.weight");
    tensors.erase("model.layers.1.mlp.up_proj.weight_scale_inv");
  }

  // Some codes, none of them NaN, and another power of two a block.
  void Quantise(const std::string& name) {
    TensorSpec& weight = tensors.at(name);
    weight.dtype = "F8_E4M3";
    weight.data.resize(weight.data.size() / 2);
    for (size_t i = 0; i < weight.data.size(); ++i)
      weight.data[i] = static_cast<char>(i * 7 % 127 + i / 64 % 2 * 128);
    TensorSpec scale = {"BF16", {}, ""};
    int64_t blocks = 1;
    for (const int64_t size : weight.shape) {
      scale.shape.push_back((size + 127) / 128);
      blocks *= scale.shape.back();
    }
    for (int64_t block = 0; block < blocks; ++block)
      scale.data += std::string({'\0', static_cast<char>(0x3b + block)});
    tensors[name + "_scale_inv"] = scale;
  }
};

// A block has 128 rows or columns; at TP 2 a rank has 96 of the MLP's.
TEST_P(LoadDense, ReadsBlockFp8AsItsWeightsRoundedToBf16) {
  const Fp8Model fp8;
  const TempFolder folder;
  folder.Write("model.safetensors", SafetensorsBytes(fp8.tensors));
  folder.Write("config.json", fp8.config.dump());
  const TensorSpecs plain = ReadPlainTensors(folder.path());
  for (int rank = 0; rank < GetParam(); ++rank) {
    const auto ours =
        LoadPacked(fp8.tensors, fp8.config.dump(), rank, GetParam());
    const auto expected =
        LoadPacked(plain, DenseConfig().dump(), rank, GetParam());
    ASSERT_OK(ours);
    ASSERT_OK(expected);
    EXPECT_EQ(*ours, *expected) << "rank " << rank;
  }
}

INSTANTIATE_TEST_SUITE_P(TpSizes, LoadDense, testing::Values(1, 2, 4));

// As a release with a vision tower and an MTP head has it.
TEST(LoadDenseNested, IsTheFlatModelUnderAnotherPrefix) {
  const TensorSpecs flat = ReadTensors(kDense);
  TensorSpecs nested;
  for (const auto& [name, tensor] : flat)
    nested[absl::StartsWith(name, "model.")
               ? absl::StrCat("model.language_model.", name.substr(6))
               : name] = tensor;
  for (const char* name :
       {"mtp.fc.weight", "mtp.layers.0.mlp.gate_proj.weight",
        "mtp.layers.0.self_attn.q_proj.weight", "model.visual.pos_embed.weight",
        "model.visual.blocks.0.mlp.linear_fc1.weight"})
    nested[name] = {"BF16", {1}, "xx"};
  nlohmann::json config = {{"model_type", "qwen3_5"},
                           {"text_config", DenseConfig()}};

  const auto loaded = LoadPacked(nested, config.dump());

  const auto expected = LoadPacked(flat, DenseConfig().dump());
  ASSERT_OK(expected);
  ASSERT_OK(loaded);
  EXPECT_EQ(*loaded, *expected);
}

TEST(LoadDenseTied, TakesTheHeadFromTheEmbeddings) {
  TensorSpecs tensors = ReadTensors(kDense);
  tensors.erase("lm_head.weight");
  nlohmann::json config = DenseConfig();
  config["tie_word_embeddings"] = true;
  const TempFolder folder;
  folder.Write("model.safetensors", SafetensorsBytes(tensors));
  folder.Write("config.json", config.dump());
  Loaded loaded;

  ASSERT_OK(Load(folder.path(), 1, 2, &loaded));

  EXPECT_EQ(BytesOf(loaded.weights.lm_head),
            SliceBytes(tensors.at("model.embed_tokens.weight"),
                       {.dim = 0, .ranges = {{256, 512}}}));
}

struct Refusal {
  const char* name;
  std::function<void(TensorSpecs&)> change;  // Of dense.
  const char* message;
};

class LoadDenseRefuses : public testing::TestWithParam<Refusal> {};

TEST_P(LoadDenseRefuses, NamingTheTensor) {
  TensorSpecs tensors = ReadTensors(kDense);
  GetParam().change(tensors);
  EXPECT_THAT(
      LoadPacked(tensors, DenseConfig().dump()),
      StatusIs(absl::StatusCode::kDataLoss, HasSubstr(GetParam().message)));
}

INSTANTIATE_TEST_SUITE_P(
    All, LoadDenseRefuses,
    testing::Values(
        Refusal{"NoGate",
                [](TensorSpecs& t) {
                  t.erase("model.layers.2.mlp.gate_proj.weight");
                },
                "tensors: 1 missing (model.layers.2.mlp.gate_proj.weight)"},
        Refusal{"ARouter",
                [](TensorSpecs& t) {
                  t["model.layers.0.mlp.gate.weight"] = t["model.norm.weight"];
                },
                "tensors: 1 unexpected (model.layers.0.mlp.gate.weight)"},
        Refusal{"FusedExperts",
                [](TensorSpecs& t) {
                  t["model.layers.0.mlp.experts.gate_up_proj"] =
                      t["model.norm.weight"];
                },
                "1 unexpected (model.layers.0.mlp.experts.gate_up_proj)"},
        Refusal{"ASingleExpert",
                [](TensorSpecs& t) {
                  t["model.layers.0.mlp.experts.0.up_proj.weight"] =
                      t["model.norm.weight"];
                },
                "1 unexpected (model.layers.0.mlp.experts.0.up_proj.weight)"},
        Refusal{"TheRowsOfQwen3Next",
                [](TensorSpecs& t) {
                  t["model.layers.0.linear_attn.in_proj_ba.weight"] =
                      t["model.norm.weight"];
                },
                "1 unexpected (model.layers.0.linear_attn.in_proj_ba.weight)"},
        Refusal{"DownTurned",
                [](TensorSpecs& t) {
                  t["model.layers.0.mlp.down_proj.weight"].shape = {192, 64};
                },
                "down_proj.weight is BF16 [192,64], must be BF16 [64,192]"},
        Refusal{"Fp8WithoutAWord",
                [](TensorSpecs& t) {
                  TensorSpec& up = t["model.layers.0.mlp.up_proj.weight"];
                  up.dtype = "F8_E4M3";
                  up.data.resize(up.data.size() / 2);
                },
                "up_proj.weight is F8_E4M3 [192,64], must be BF16 [192,64]"}),
    [](const auto& info) { return info.param.name; });

TEST(LoadModelOfExperts, RefusesAnMlpBesideThem) {
  const std::string moe_text = GOLDEN_DIR "/models/moe_text";
  TensorSpecs tensors = ReadTensors(moe_text);
  tensors["model.layers.0.mlp.gate_proj.weight"] =
      tensors.at("model.norm.weight");
  EXPECT_THAT(
      LoadPacked(tensors, ReadBytes(moe_text + "/config.json")),
      StatusIs(
          absl::StatusCode::kDataLoss,
          HasSubstr("1 unexpected (model.layers.0.mlp.gate_proj.weight)")));
}

}  // namespace
}  // namespace phalanx
