// Every number and switch of config.json with values that no model has, and
// every bit of a small checkpoint's headers turned.

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/status_matchers.h"
#include "tests/worker/checkpoint/checkpoint_files.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/model_config.h"
#include "worker/checkpoint/tensor_table.h"

namespace phalanx {
namespace {

using Json = nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr char kMoeText[] = GOLDEN_DIR "/models/moe_text";

const std::vector<std::string> kIntegers = {"hidden_size",
                                            "vocab_size",
                                            "max_position_embeddings",
                                            "num_hidden_layers",
                                            "num_attention_heads",
                                            "num_key_value_heads",
                                            "head_dim",
                                            "linear_num_key_heads",
                                            "linear_num_value_heads",
                                            "linear_key_head_dim",
                                            "linear_value_head_dim",
                                            "linear_conv_kernel_dim",
                                            "num_experts",
                                            "num_experts_per_tok",
                                            "moe_intermediate_size",
                                            "shared_expert_intermediate_size",
                                            "full_attention_interval",
                                            "decoder_sparse_step"};
const std::vector<std::string> kReals = {"rms_norm_eps"};
const std::vector<std::string> kRopeReals = {"rope_theta",
                                             "partial_rotary_factor"};
const std::vector<std::string> kSwitches = {
    "attention_bias", "attn_output_gate", "norm_topk_prob",
    "tie_word_embeddings"};
const std::vector<std::string> kWords = {"hidden_act", "output_gate_type"};

// As they stand in the text: not all are JSON that a writer would write.
const std::vector<std::string> kNoInteger = {"-1",
                                             "0.5",
                                             "1e300",
                                             "-1e300",
                                             "9223372036854775807",
                                             "-9223372036854775808",
                                             "9223372036854775808",
                                             "18446744073709551615",
                                             "18446744073709551616",
                                             "true",
                                             "\"64\"",
                                             "[64]",
                                             "[[[64]]]",
                                             "{}",
                                             "{\"a\":[1,{\"b\":2}]}",
                                             "\"NaN\"",
                                             "\"\""};
const std::vector<std::string> kNoReal = {
    "-1",  "1e300", "-1e-300",   "1e-300",       "true", "\"1\"",
    "[1]", "[[1]]", "{\"a\":1}", "\"Infinity\"", "0"};
const std::vector<std::string> kNoSwitch = {"0",      "1",  "\"true\"",
                                            "[true]", "{}", "1e300"};
const std::vector<std::string> kNoWord = {"0",  "true", "[\"silu\"]",
                                          "{}", "\"\"", "\"SILU\""};

// A model's config.json with `key` (of `object`, or the root) as this text.
std::string ConfigWith(const std::string& object, const std::string& key,
                       const std::string& value,
                       const std::string& model = kMoeText) {
  constexpr char kMark[] = "\"put it here\"";
  Json json = ReadJson(model + "/config.json");
  (object.empty() ? json : json[object])[key] = "put it here";
  std::string text = json.dump();
  return text.replace(text.find(kMark), sizeof(kMark) - 1, value);
}

// The key and some word on what it must be.
void ExpectRefused(const std::string& object, const std::string& key,
                   const std::string& value) {
  EXPECT_THAT(
      ParseModelConfig(ConfigWith(object, key, value)),
      StatusIs(kInvalid, AllOf(HasSubstr(key + " is "), HasSubstr("must be"))))
      << key << ": " << value;
}

TEST(AbsurdValues, AreRefusedForEveryInteger) {
  for (const std::string& key : kIntegers)
    for (const std::string& value : kNoInteger) ExpectRefused("", key, value);
}

TEST(AbsurdValues, AreRefusedForTheWidthOfADenseModel) {
  const std::string dense = std::string(GOLDEN_DIR) + "/models/dense";
  for (const std::string& value : kNoInteger)
    EXPECT_THAT(
        ParseModelConfig(ConfigWith("", "intermediate_size", value, dense)),
        StatusIs(kInvalid, AllOf(HasSubstr("intermediate_size is "),
                                 HasSubstr("must be"))))
        << value;
}

TEST(AbsurdValues, AreRefusedForEveryReal) {
  for (const std::string& value : kNoReal) {
    for (const std::string& key : kReals) ExpectRefused("", key, value);
    for (const std::string& key : kRopeReals)
      ExpectRefused("rope_parameters", key, value);
  }
}

TEST(AbsurdValues, AreRefusedForEverySwitch) {
  for (const std::string& key : kSwitches)
    for (const std::string& value : kNoSwitch) ExpectRefused("", key, value);
}

TEST(AbsurdValues, AreRefusedForEveryWord) {
  for (const std::string& key : kWords)
    for (const std::string& value : kNoWord) ExpectRefused("", key, value);
}

TEST(AbsurdValues, AreRefusedForEveryObject) {
  for (const char* value : {"1", "\"a\"", "[{}]", "true", "1e300"}) {
    ExpectRefused("", "rope_parameters", value);
    ExpectRefused("", "quantization_config", value);
  }
}

// Not JSON, though some writers write them.
TEST(AbsurdValues, NanAndInfinityAreNotJson) {
  for (const char* value : {"NaN", "Infinity", "-Infinity", "1e999", "0x40",
                            "01", "+1", ".5", "nan"})
    EXPECT_THAT(ParseModelConfig(ConfigWith("", "hidden_size", value)),
                StatusIs(kInvalid, HasSubstr("not valid JSON")))
        << value;
}

// --- Bits of files ---------------------------------------------------------

// A file that holds the least of everything.
std::string SmallFile() {
  return SafetensorsBytes({{"a.weight", {"BF16", {2, 3}, std::string(12, 'a')}},
                           {"b.norm", {"F32", {2}, std::string(8, 'b')}}});
}

TEST(FlippedBits, OfASmallFileAreReadOrRefused) {
  const std::string original = SmallFile();
  int refused = 0;
  for (size_t bit = 0; bit < 8 * original.size(); ++bit) {
    std::string file = original;
    file[bit / 8] = static_cast<char>(file[bit / 8] ^ (1 << (bit % 8)));
    const auto tensors = ParseSafetensors(AsBytes(file), "f");
    if (tensors.ok()) {
      const std::byte* begin = AsBytes(file).data();
      for (const StoredTensor& tensor : *tensors) {
        EXPECT_GE(tensor.data.data(), begin);
        EXPECT_LE(tensor.data.data() + tensor.data.size(), begin + file.size());
      }
      continue;
    }
    ++refused;
    EXPECT_TRUE(absl::IsDataLoss(tensors.status()) ||
                absl::IsInvalidArgument(tensors.status()))
        << tensors.status();
  }
  EXPECT_GT(refused, 0);
}

// The data has no redundancy, but nothing in the header of a whole model can
// change unseen: names, types, shapes and offsets all have one right value.
TEST(FlippedBits, OfAModelsHeaderAreSeen) {
  const std::string original =
      ReadBytes(std::string(kMoeText) + "/model.safetensors");
  const auto config = LoadModelConfig(kMoeText);
  ASSERT_OK(config);
  const std::string metadata = R"("__metadata__":{"format":"pt"},)";
  const size_t begin = original.find(metadata) + metadata.size();
  const size_t end = original.find("}}", begin) + 2;
  std::mt19937 random(20261130);
  const TempFolder folder;
  for (int round = 0; round < 200; ++round) {
    std::string file = original;
    const size_t at = begin + random() % (end - begin);
    file[at] = static_cast<char>(file[at] ^ (1 << (random() % 8)));
    folder.Write("model.safetensors", file);

    const auto checkpoint = Checkpoint::Open(folder.path());

    if (!checkpoint.ok()) continue;
    EXPECT_FALSE(TensorTable::Match(*checkpoint, *config).ok())
        << "byte " << at << " is " << file[at];
  }
}

TEST(Truncation, OfAModelIsSeenAtEveryLength) {
  const std::string original =
      ReadBytes(std::string(kMoeText) + "/model.safetensors");
  std::mt19937 random(20261130);
  for (int round = 0; round < 300; ++round) {
    const size_t length = random() % original.size();
    EXPECT_FALSE(ParseSafetensors(AsBytes(original).first(length), "f").ok())
        << length;
  }
}

}  // namespace
}  // namespace phalanx
