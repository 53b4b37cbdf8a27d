// What phalanx-synth writes is a checkpoint: it loads, and a model of it
// decodes. Its bytes depend on the sizes and the seed alone.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/bf16.h"
#include "tests/bench/synthetic_checkpoint.h"
#include "tests/support/status_matchers.h"
#include "tests/support/tp_group.h"
#include "tests/worker/checkpoint/checkpoint_files.h"
#include "worker/checkpoint/fp8.h"

namespace phalanx {
namespace {

using testing::HasSubstr;

constexpr char kLayer[] = "model.language_model.layers.0.";

// Every layer kind and sizes that TP 8 can cut, in a few megabytes.
SyntheticModel Tiny(bool fp8) {
  return {.hidden = 256,
          .vocab = 1024,
          .context = 512,
          .heads = 8,
          .kv_heads = 2,
          .head_dim = 32,
          .gdn_key_heads = 8,
          .gdn_value_heads = 16,
          .gdn_head_dim = 16,
          .experts = 16,
          .experts_per_token = 4,
          .expert_width = 128,
          .fp8 = fp8};
}

TensorSpecs Written(const SyntheticModel& model,
                    const SyntheticWriting& writing = {}) {
  const TempFolder folder;
  EXPECT_THAT(
      WriteSyntheticCheckpoint(model, folder.path() + "/model", writing),
      IsOk());
  return ReadTensors(folder.path() + "/model");
}

std::string AllBytes(const TensorSpecs& tensors) {
  std::string bytes;
  for (const auto& [name, tensor] : tensors)
    bytes += name + tensor.dtype + tensor.data;
  return bytes;
}

double Deviation(const std::vector<float>& numbers) {
  double sum = 0;
  for (const float number : numbers) sum += double{number} * number;
  return std::sqrt(sum / static_cast<double>(numbers.size()));
}

std::vector<float> Bf16Numbers(const TensorSpec& tensor) {
  EXPECT_EQ(tensor.dtype, "BF16");
  std::vector<float> numbers;
  for (size_t i = 0; i + 1 < tensor.data.size(); i += 2)
    numbers.push_back(Bf16ToF32(
        static_cast<uint16_t>(static_cast<uint8_t>(tensor.data[i]) |
                              static_cast<uint8_t>(tensor.data[i + 1]) << 8)));
  return numbers;
}

class Synthetic : public testing::TestWithParam<bool> {};

TEST_P(Synthetic, LoadsAndDecodes) {
  const TempFolder folder;
  ASSERT_THAT(
      WriteSyntheticCheckpoint(Tiny(GetParam()), folder.path() + "/model"),
      IsOk());
  const auto group = TpGroup::MustCreate({.model_dir = folder.path() + "/model",
                                          .tp_size = 1,
                                          .backends = BestCpuBackends(),
                                          .limits = LaneLimits(1, 64)});
  Lane lane = TpGroup::MakeLane(0, 0, 64);

  const LogitRows rows =
      Continue(*group, lane, std::vector<int32_t>{3, 1, 4, 1, 5}, 64, 4);

  ASSERT_EQ(rows.size(), 5u);
  for (const std::vector<float>& logits : rows) {
    ASSERT_EQ(logits.size(), 1024u);
    EXPECT_GT(Deviation(logits), 1);
    EXPECT_LT(Deviation(logits), 4);
  }
}

TEST_P(Synthetic, HasTheSameBytesForTheSameSeed) {
  EXPECT_EQ(AllBytes(Written(Tiny(GetParam()))),
            AllBytes(Written(Tiny(GetParam()))));
}

TEST_P(Synthetic, HasTheSameBytesForAnyThreadsAndShards) {
  EXPECT_EQ(AllBytes(Written(Tiny(GetParam()))),
            AllBytes(Written(Tiny(GetParam()),
                             {.threads = 3, .shard_bytes = 1'000'000})));
}

TEST_P(Synthetic, HasOtherNumbersForAnotherSeed) {
  SyntheticModel other = Tiny(GetParam());
  other.seed = 2;
  const TensorSpecs ours = Written(Tiny(GetParam()));
  const TensorSpecs theirs = Written(other);

  ASSERT_EQ(ours.size(), theirs.size());
  for (const auto& [name, tensor] : ours)
    EXPECT_NE(tensor.data, theirs.at(name).data) << name;
}

INSTANTIATE_TEST_SUITE_P(Formats, Synthetic, testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "fp8" : "bf16";
                         });

TEST(SyntheticCheckpoint, GivesMatricesTheScaleOfTheirFanIn) {
  const TensorSpecs tensors = Written(Tiny(false));
  const double fan_in = 1 / std::sqrt(256.0);

  EXPECT_NEAR(Deviation(Bf16Numbers(tensors.at(std::string(kLayer) +
                                               "mlp.experts.gate_up_proj"))),
              fan_in, 0.01 * fan_in);
  EXPECT_NEAR(Deviation(Bf16Numbers(tensors.at("lm_head.weight"))), 2 * fan_in,
              0.01 * 2 * fan_in);
}

TEST(SyntheticCheckpoint, GivesFp8MatricesTheScaleOfTheirFanIn) {
  const TensorSpecs tensors = Written(Tiny(true));
  const std::string name =
      std::string(kLayer) + "linear_attn.in_proj_qkv.weight";
  const TensorSpec& codes = tensors.at(name);
  const TensorSpec& scales = tensors.at(name + "_scale_inv");
  std::vector<uint16_t> numbers(codes.data.size());
  DequantiseFp8({.codes = AsBytes(codes.data),
                 .scales = AsBytes(scales.data),
                 .rows = codes.shape[0],
                 .cols = codes.shape[1]},
                {0, codes.shape[0]}, {0, codes.shape[1]}, numbers.data(),
                codes.shape[1]);

  std::vector<float> values;
  for (const uint16_t number : numbers) values.push_back(Bf16ToF32(number));

  EXPECT_NEAR(Deviation(values) * std::sqrt(256.0), 1, 0.06);
}

TEST(SyntheticCheckpoint, CutsFilesAndNamesThemInAnIndex) {
  const TempFolder folder;
  const std::string path = folder.path() + "/model";
  const auto made =
      WriteSyntheticCheckpoint(Tiny(false), path, {.shard_bytes = 1'000'000});
  ASSERT_THAT(made, IsOk());

  const nlohmann::json index = ReadJson(path + "/model.safetensors.index.json");

  EXPECT_GT(made->files, 2);
  EXPECT_EQ(index["weight_map"].size(), static_cast<size_t>(made->tensors));
  EXPECT_EQ(index["metadata"]["total_size"], made->weight_bytes);
}

TEST(SyntheticCheckpoint, RefusesAFolderWithFiles) {
  const TempFolder folder;
  folder.Write("config.json", "{}");

  EXPECT_THAT(WriteSyntheticCheckpoint(Tiny(false), folder.path()).status(),
              StatusIs(absl::StatusCode::kAlreadyExists,
                       HasSubstr("must be new or empty")));
}

TEST(SyntheticCheckpoint, RefusesWhatTheDiskCannotHold) {
  const TempFolder folder;
  SyntheticModel large = Tiny(false);
  large.layers = 200;
  large.hidden = 65536;
  large.experts = 4096;

  EXPECT_THAT(
      WriteSyntheticCheckpoint(large, folder.path()).status(),
      StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("free; ")));
}

TEST(SyntheticCheckpoint, RefusesSizesThatNoModelHas) {
  const TempFolder folder;
  SyntheticModel odd = Tiny(false);
  odd.kv_heads = 3;

  EXPECT_THAT(WriteSyntheticCheckpoint(odd, folder.path()).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("num_attention_heads is 8; must be a "
                                 "multiple of num_key_value_heads=3")));
}

}  // namespace
}  // namespace phalanx
