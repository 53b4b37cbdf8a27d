#include "worker/checkpoint/digest.h"

#include <gtest/gtest.h>

#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "tests/support/status_matchers.h"
#include "tests/worker/checkpoint/checkpoint_files.h"

namespace phalanx {
namespace {

constexpr size_t kEnd = 32 << 10;

// The digest of a folder with these files; the index lists all tensors.
std::string DigestOf(const std::map<std::string, TensorSpecs>& files) {
  const TempFolder folder;
  nlohmann::json index = {{"weight_map", nlohmann::json::object()}};
  for (const auto& [file, tensors] : files) {
    folder.Write(file, SafetensorsBytes(tensors));
    for (const auto& [name, tensor] : tensors) index["weight_map"][name] = file;
  }
  folder.Write("model.safetensors.index.json", index.dump());
  const auto checkpoint = Checkpoint::Open(folder.path());
  EXPECT_OK(checkpoint);
  return checkpoint.ok() ? ModelDigest(*checkpoint) : "";
}

TensorSpecs Bytes(const std::string& name, const std::string& data) {
  return {{name, {"U8", {static_cast<int64_t>(data.size())}, data}}};
}

std::string DigestOfBytes(const std::string& data) {
  return DigestOf({{"1.safetensors", Bytes("a", data)}});
}

TEST(ModelDigest, IsSixtyFourHexadecimalDigits) {
  EXPECT_THAT(DigestOfBytes("x"), testing::MatchesRegex("[0-9a-f]+"));
  EXPECT_EQ(DigestOfBytes("x").size(), 64u);
}

TEST(ModelDigest, IsTheSameEachTime) {
  EXPECT_EQ(DigestOfBytes("x"), DigestOfBytes("x"));
}

TEST(ModelDigest, IgnoresNamesAndOrderOfFiles) {
  const TensorSpecs a = Bytes("a", "1");
  const TensorSpecs b = Bytes("b", "2");
  EXPECT_EQ(DigestOf({{"1.safetensors", a}, {"2.safetensors", b}}),
            DigestOf({{"1.safetensors", b}, {"2.safetensors", a}}));
}

TEST(ModelDigest, ChangesWithATensorsName) {
  EXPECT_NE(DigestOf({{"1.safetensors", Bytes("a", "1")}}),
            DigestOf({{"1.safetensors", Bytes("b", "1")}}));
}

TEST(ModelDigest, SeesBothEndsOfALargeTensor) {
  const std::string data(4 * kEnd, 'x');
  std::string first = data;
  std::string last = data;
  first[kEnd - 1] = 'y';
  last[data.size() - kEnd] = 'y';
  EXPECT_NE(DigestOfBytes(data), DigestOfBytes(first));
  EXPECT_NE(DigestOfBytes(data), DigestOfBytes(last));
}

TEST(ModelDigest, SeesEveryByteOfASmallTensor) {
  const std::string data(kEnd + 100, 'x');
  for (size_t at : {size_t{0}, kEnd - 1, kEnd, data.size() - 1}) {
    std::string changed = data;
    changed[at] = 'y';
    EXPECT_NE(DigestOfBytes(data), DigestOfBytes(changed)) << at;
  }
}

TEST(ModelDigest, PassesOverTheMiddleOfALargeTensor) {
  const std::string data(4 * kEnd, 'x');
  std::string changed = data;
  changed[2 * kEnd] = 'y';
  EXPECT_EQ(DigestOfBytes(data), DigestOfBytes(changed));
}

ModelConfig SaidToBe(const std::string& digest, const std::string& source) {
  ModelConfig config;
  config.stored_weights = WeightFormat::kInt8;
  config.codes_origin = {.digest = digest, .source_digest = source};
  return config;
}

TEST(SourceDigest, OfCodesIsThatOfWhatTheyWereMadeFrom) {
  EXPECT_EQ(SourceDigest("a", SaidToBe("a", "source")), "source");
}

TEST(SourceDigest, OfOtherFilesThanTheConfigMeansIsTheirOwn) {
  EXPECT_EQ(SourceDigest("b", SaidToBe("a", "source")), "b");
}

TEST(SourceDigest, OfAModelThatSaysNothingIsItsOwn) {
  EXPECT_EQ(SourceDigest("a", ModelConfig()), "a");
}

constexpr char kMoe[] = GOLDEN_DIR "/models/moe";

// Of a model of experts whose config is changed so.
std::string ConfigDigestWith(void (*change)(ModelConfig&)) {
  auto config = LoadModelConfig(kMoe);
  EXPECT_OK(config);
  if (!config.ok()) return "";
  change(*config);
  return ConfigDigest(*config);
}

TEST(ConfigDigest, ChangesWithWhateverComputesOtherwise) {
  using Change = void (*)(ModelConfig&);
  const Change changes[] = {
      [](ModelConfig&) {},
      [](ModelConfig& c) { c.rope_theta += 1; },
      [](ModelConfig& c) { c.rms_norm_eps *= 2; },
      [](ModelConfig& c) { std::swap(c.layer_types[0], c.layer_types[3]); },
      [](ModelConfig& c) { c.rotary_dim /= 2; },
      [](ModelConfig& c) { c.num_experts_per_tok += 1; },
      [](ModelConfig& c) { c.norm_topk_prob = !c.norm_topk_prob; },
      [](ModelConfig& c) { c.tie_word_embeddings = !c.tie_word_embeddings; },
      [](ModelConfig& c) { std::swap(c.num_attention_heads, c.head_dim); },
      [](ModelConfig& c) { c.linear_num_key_heads *= 2; }};
  std::set<std::string> digests;
  for (const Change change : changes) digests.insert(ConfigDigestWith(change));
  EXPECT_EQ(digests.size(), std::size(changes));
}

TEST(ConfigDigest, PassesOverHowTheModelIsStoredAndHowLongItsContextIs) {
  EXPECT_EQ(ConfigDigestWith([](ModelConfig& c) {
              c.stored_weights = WeightFormat::kInt8;
              c.codes_origin = {.digest = "a", .source_digest = "b"};
              c.block_fp8 = !c.block_fp8;
              c.max_position_embeddings *= 2;
            }),
            ConfigDigestWith([](ModelConfig&) {}));
}

}  // namespace
}  // namespace phalanx
