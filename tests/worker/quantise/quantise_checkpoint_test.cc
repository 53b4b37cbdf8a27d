#include "worker/quantise/quantise_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <map>

#include "common/status.h"
#include "kernels/quantise.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/checkpoint/checkpoint_files.h"
#include "tests/worker/checkpoint/fake_backend.h"
#include "tests/worker/checkpoint/packed_bytes.h"
#include "worker/checkpoint/digest.h"
#include "worker/checkpoint/loader.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr char kMoe[] = GOLDEN_DIR "/models/moe";
constexpr char kMini[] = SOURCE_ROOT "/deploy/models/phalanx-mini";

std::string Golden(const std::string& model) {
  return std::string(GOLDEN_DIR) + "/models/" + model;
}

// Makes `out` and says where it is.
std::string MustQuantise(const std::string& model_dir, WeightFormat format,
                         const std::string& out, int threads = 1,
                         int64_t max_file_bytes = kMaxOutputFileBytes) {
  const auto result = QuantiseCheckpoint({.model_dir = model_dir,
                                          .format = format,
                                          .out_dir = out,
                                          .run = {.threads = threads},
                                          .max_file_bytes = max_file_bytes});
  EXPECT_TRUE(result.ok()) << result.status();
  return out;
}

// All that one rank holds of a model in `format`, as bytes.
absl::StatusOr<std::vector<std::string>> Load(const std::string& model_dir,
                                              WeightFormat format, int rank = 0,
                                              int tp_size = 1) {
  ASSIGN_OR_RETURN(const ModelConfig config, LoadModelConfig(model_dir));
  ASSIGN_OR_RETURN(const LocalShape shape,
                   MakeLocalShape(config, rank, tp_size));
  ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Open(model_dir));
  FakeBackend backend;
  ASSIGN_OR_RETURN(
      const Weights weights,
      LoadWeights(checkpoint, config, shape, backend, {.format = format}));
  std::vector<std::string> held = PackedBytes(weights);
  held.push_back(BytesOf(weights.lm_head));
  for (const Buffer& buffer : weights.storage)
    held.emplace_back(static_cast<const char*>(buffer.data()),
                      static_cast<size_t>(buffer.bytes()));
  held.push_back(
      absl::StrCat(weights.expert_bytes, " ", weights.non_expert_bytes));
  return held;
}

// Of the files, whatever config.json says.
std::string DigestOf(const std::string& model_dir) {
  const auto checkpoint = Checkpoint::Open(model_dir);
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
  return checkpoint.ok() ? ModelDigest(*checkpoint) : "";
}

// Of the model that a folder holds.
std::string SourceDigestOf(const std::string& model_dir) {
  const auto config = LoadModelConfig(model_dir);
  EXPECT_TRUE(config.ok()) << config.status();
  return config.ok() ? SourceDigest(DigestOf(model_dir), *config) : "";
}

std::map<std::string, std::string> FilesOf(const std::string& dir) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(dir))
    files[entry.path().filename().string()] = ReadBytes(entry.path().string());
  return files;
}

std::vector<std::string> NamesIn(const std::string& dir) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(dir))
    names.push_back(entry.path().filename().string());
  return names;
}

// --- The same bytes as quantising at load ----------------------------------

struct Case {
  const char* model;
  WeightFormat format;
};

class QuantisedModel : public testing::TestWithParam<Case> {};

TEST_P(QuantisedModel, LoadsAsTheModelItIsMadeFromAtEverySize) {
  const auto [model, format] = GetParam();
  const TempFolder folder;
  const std::string out =
      MustQuantise(Golden(model), format, folder.path() + "/out");
  const ModelConfig config = *LoadModelConfig(Golden(model));
  int sizes = 0;
  for (const int tp_size : {1, 2, 4, 8}) {
    if (!MakeLocalShape(config, 0, tp_size).ok()) continue;
    ++sizes;
    for (int rank = 0; rank < tp_size; ++rank) {
      const auto want = Load(Golden(model), format, rank, tp_size);
      const auto have = Load(out, format, rank, tp_size);

      ASSERT_TRUE(want.ok()) << want.status();
      ASSERT_TRUE(have.ok()) << have.status();
      EXPECT_TRUE(*have == *want) << "rank " << rank << " of " << tp_size;
    }
  }
  EXPECT_GE(sizes, 2);
}

INSTANTIATE_TEST_SUITE_P(Models, QuantisedModel,
                         testing::Values(Case{"moe", WeightFormat::kInt8},
                                         Case{"moe", WeightFormat::kInt4},
                                         Case{"moe_text", WeightFormat::kInt8},
                                         Case{"moe_text", WeightFormat::kInt4},
                                         Case{"moe_fp8", WeightFormat::kInt8},
                                         Case{"moe_fp8", WeightFormat::kInt4},
                                         Case{"next", WeightFormat::kInt8},
                                         Case{"next", WeightFormat::kInt4},
                                         Case{"dense", WeightFormat::kInt8},
                                         Case{"dense", WeightFormat::kInt4}),
                         [](const auto& info) {
                           return absl::StrCat(
                               info.param.model, "_",
                               WeightFormatName(info.param.format));
                         });

TEST(QuantiseCheckpoint, StoresTheCodesOfAWholeRowTwoAByteInInt4) {
  const TempFolder folder;
  const TensorSpecs made = ReadTensors(
      MustQuantise(kMini, WeightFormat::kInt4, folder.path() + "/out"));
  const std::string name = "model.language_model.layers.3.self_attn.o_proj.";
  const TensorSpec source = ReadTensors(kMini).at(name + "weight");
  const int64_t rows = source.shape[0];
  const int64_t cols = source.shape[1];
  const int64_t groups = GroupsOf(cols, 8).count;
  std::vector<uint8_t> codes(static_cast<size_t>(cols));
  std::vector<uint16_t> scales(static_cast<size_t>(groups));
  const TensorSpec& stored = made.at(name + "weight");
  const TensorSpec& stored_scales = made.at(name + "scales");

  ASSERT_EQ(stored.shape, (std::vector<int64_t>{rows, cols / 2}));
  ASSERT_EQ(stored_scales.shape, (std::vector<int64_t>{rows, groups}));
  for (int64_t r = 0; r < rows; ++r) {
    QuantiseWeightRow(
        reinterpret_cast<const uint16_t*>(source.data.data()) + r * cols, cols,
        8, WeightFormat::kInt4, codes.data(), scales.data());
    for (int64_t c = 0; c < cols; ++c) {
      const auto pair = static_cast<uint8_t>(
          stored.data[static_cast<size_t>((r * cols + c) / 2)]);
      ASSERT_EQ(c % 2 == 0 ? pair & 0xf : pair >> 4,
                codes[static_cast<size_t>(c)])
          << r << ", " << c;
    }
    ASSERT_EQ(std::memcmp(stored_scales.data.data() + r * groups * 2,
                          scales.data(), static_cast<size_t>(groups * 2)),
              0);
  }
}

TEST(QuantiseCheckpoint, WritesTheSameFilesWhateverTheThreads) {
  const TempFolder folder;
  const std::string one =
      MustQuantise(kMini, WeightFormat::kInt4, folder.path() + "/1", 1);
  const std::string three =
      MustQuantise(kMini, WeightFormat::kInt4, folder.path() + "/3", 3);

  EXPECT_TRUE(FilesOf(one) == FilesOf(three));
}

TEST(QuantiseCheckpoint, LoadsAlikeFromOneFileAndFromSeveral) {
  const TempFolder folder;
  const std::string one =
      MustQuantise(kMoe, WeightFormat::kInt8, folder.path() + "/one");
  const std::string several = MustQuantise(
      kMoe, WeightFormat::kInt8, folder.path() + "/several", 1, 200000);

  EXPECT_TRUE(fs::exists(one + "/model.safetensors"));
  EXPECT_TRUE(fs::exists(several + "/model.safetensors.index.json"));
  EXPECT_TRUE(*Load(one, WeightFormat::kInt8) ==
              *Load(several, WeightFormat::kInt8));
}

// --- The model it is of ----------------------------------------------------

TEST(QuantisedModelsDigest, IsThatOfTheModelItIsMadeFrom) {
  const TempFolder folder;
  const std::string int8 =
      MustQuantise(kMoe, WeightFormat::kInt8, folder.path() + "/int8");
  const std::string int4 =
      MustQuantise(kMoe, WeightFormat::kInt4, folder.path() + "/int4");

  EXPECT_EQ(SourceDigestOf(int8), DigestOf(kMoe));
  EXPECT_EQ(SourceDigestOf(int4), DigestOf(kMoe));
  EXPECT_NE(DigestOf(int8), DigestOf(kMoe));
}

TEST(QuantisedModelsDigest, IsItsOwnOnceAnotherToolChangedATensor) {
  const TempFolder folder;
  const std::string out =
      MustQuantise(kMoe, WeightFormat::kInt8, folder.path() + "/out");
  TensorSpecs tensors = ReadTensors(out);
  char& code = tensors
                   ["model.language_model.layers.0.linear_attn.out_proj."
                    "weight"]
                       .data[5];
  code = static_cast<char>(code ^ 1);
  folder.Write("out/model.safetensors", SafetensorsBytes(tensors));

  EXPECT_EQ(SourceDigestOf(out), DigestOf(out));
  EXPECT_NE(SourceDigestOf(out), DigestOf(kMoe));
}

// --- The folder ------------------------------------------------------------

TEST(QuantiseCheckpoint, TakesWhatBelongsToTheModelAlong) {
  const TempFolder folder;
  const std::string out =
      MustQuantise(kMini, WeightFormat::kInt8, folder.path() + "/out");

  for (const char* name : {"tokenizer.json", "tokenizer_config.json",
                           "chat_template.jinja", "generation_config.json"})
    EXPECT_EQ(ReadBytes(out + "/" + name),
              ReadBytes(std::string(kMini) + "/" + name))
        << name;
  // They are of other bytes.
  EXPECT_FALSE(fs::exists(out + "/SHA256SUMS"));
}

TEST(QuantiseCheckpoint, SaysItsFormatInPlaceOfAnother) {
  const TempFolder folder;
  const std::string out = MustQuantise(Golden("moe_fp8"), WeightFormat::kInt4,
                                       folder.path() + "/out");

  const auto config = ReadJson(out + "/config.json");
  EXPECT_EQ(config.at("quantization_config"),
            (nlohmann::json{{"quant_method", "phalanx"},
                            {"weights", "int4"},
                            {"version", kQuantiserVersion},
                            {"digest", DigestOf(out)},
                            {"source_digest", DigestOf(Golden("moe_fp8"))}}));
  EXPECT_EQ(config.at("text_config"),
            ReadJson(Golden("moe_fp8") + "/config.json").at("text_config"));
}

TEST(QuantiseCheckpoint, OverwritesNothing) {
  const TempFolder folder;
  folder.Write("out", "somebody's");

  const auto result = QuantiseCheckpoint(
      {.model_dir = kMoe, .out_dir = folder.path() + "/out"});

  EXPECT_TRUE(absl::IsAlreadyExists(result.status())) << result.status();
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("/out"));
  EXPECT_EQ(ReadBytes(folder.path() + "/out"), "somebody's");
}

TEST(QuantiseCheckpoint, LeavesNothingBehindWhenItIsStopped) {
  const TempFolder folder;
  std::atomic<bool> stop{false};
  QuantiseOptions options = {.model_dir = kMini,
                             .out_dir = folder.path() + "/out"};
  options.run.stop = &stop;
  options.run.on_progress = [&](const LoadProgress& now) {
    if (now.ratio() > 0.5) stop = true;
  };

  const auto result = QuantiseCheckpoint(options);

  EXPECT_TRUE(absl::IsCancelled(result.status())) << result.status();
  EXPECT_THAT(std::string(result.status().message()),
              HasSubstr("nothing is left of " + options.out_dir));
  EXPECT_TRUE(NamesIn(folder.path()).empty());
}

TEST(QuantiseCheckpoint, ClearsAwayWhatAKilledOneLeft) {
  const TempFolder folder;
  const std::string left = folder.path() + "/.out.unfinished";
  fs::create_directory(left);
  folder.Write(".out.unfinished/model.safetensors", "half");

  const std::string out =
      MustQuantise(kMoe, WeightFormat::kInt8, folder.path() + "/out");

  EXPECT_EQ(NamesIn(folder.path()), std::vector<std::string>{"out"});
  EXPECT_TRUE(Load(out, WeightFormat::kInt8).ok());
}

TEST(QuantiseCheckpoint, RefusesAModelThatIsCodesAlready) {
  const TempFolder folder;
  const std::string out =
      MustQuantise(kMoe, WeightFormat::kInt8, folder.path() + "/out");

  const auto again = QuantiseCheckpoint(
      {.model_dir = out, .out_dir = folder.path() + "/again"});

  EXPECT_TRUE(absl::IsInvalidArgument(again.status()));
  EXPECT_THAT(std::string(again.status().message()),
              HasSubstr("is int8 already"));
}

// --- What loading refuses --------------------------------------------------

TEST(LoadQuantised, RefusesAnotherFormat) {
  const TempFolder folder;
  const std::string out =
      MustQuantise(kMoe, WeightFormat::kInt8, folder.path() + "/out");

  for (const WeightFormat format : {WeightFormat::kBf16, WeightFormat::kInt4}) {
    const auto loaded = Load(out, format);
    EXPECT_TRUE(absl::IsInvalidArgument(loaded.status()));
    EXPECT_THAT(
        std::string(loaded.status().message()),
        HasSubstr(absl::StrCat("--weights is ", WeightFormatName(format),
                               "; this model is stored in int8")));
  }
}

struct Fault {
  const char* name;
  const char* tensor;
  void (*change)(TensorSpecs&, const std::string&);
  const char* told;
};

class LoadQuantisedRefuses : public testing::TestWithParam<Fault> {};

TEST_P(LoadQuantisedRefuses, NamingTheTensor) {
  const TempFolder folder;
  const std::string out =
      MustQuantise(kMoe, WeightFormat::kInt4, folder.path() + "/out");
  const std::string file = out + "/model.safetensors";
  TensorSpecs tensors = ReadTensors(out);
  const std::string name =
      std::string("model.language_model.layers.0.") + GetParam().tensor;
  ASSERT_TRUE(tensors.contains(name));
  GetParam().change(tensors, name);
  folder.Write("out/model.safetensors", SafetensorsBytes(tensors));

  const auto loaded = Load(out, WeightFormat::kInt4);

  EXPECT_TRUE(absl::IsDataLoss(loaded.status())) << loaded.status();
  EXPECT_THAT(std::string(loaded.status().message()), HasSubstr(name));
  EXPECT_THAT(std::string(loaded.status().message()),
              HasSubstr(GetParam().told));
}

INSTANTIATE_TEST_SUITE_P(
    Faults, LoadQuantisedRefuses,
    testing::Values(
        Fault{"ScalesThatAreMissing", "linear_attn.out_proj.scales",
              [](TensorSpecs& t, const std::string& name) { t.erase(name); },
              "1 missing"},
        Fault{"ScalesOfFusedExpertsThatAreMissing",
              "mlp.experts.down_proj.scales",
              [](TensorSpecs& t, const std::string& name) { t.erase(name); },
              "1 missing"},
        Fault{"ScalesOfOtherGroups", "linear_attn.out_proj.scales",
              [](TensorSpecs& t, const std::string& name) {
                t[name].shape = {t[name].shape[0] * 2, t[name].shape[1] / 2};
              },
              "must be BF16 [64,8]"},
        Fault{"CodesOfAnotherType", "linear_attn.in_proj_z.weight",
              [](TensorSpecs& t, const std::string& name) {
                t[name].dtype = "I8";
              },
              "must be U8 [256,32]"},
        Fault{"CodesOfAnotherWidth", "linear_attn.in_proj_z.weight",
              [](TensorSpecs& t, const std::string& name) {
                t[name].shape = {t[name].shape[0] / 2, t[name].shape[1] * 2};
              },
              "must be U8 [256,32]"},
        Fault{"ScalesOfWhatIsNeverCodes", "mlp.gate.weight",
              [](TensorSpecs& t, const std::string& name) {
                t[name.substr(0, name.size() - 6) + "scales"] = t[name];
                t.erase(name);
              },
              "1 unexpected"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace phalanx
