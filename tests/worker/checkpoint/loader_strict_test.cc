#include <gtest/gtest.h>

#include <functional>

#include "absl/strings/match.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/checkpoint/checkpoint_files.h"
#include "tests/worker/checkpoint/fake_backend.h"
#include "worker/checkpoint/loader.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// What a loaded model holds, byte for byte.
using Packed = std::vector<std::string>;

std::string BytesOf(const PackedWeight& weight) {
  return std::string(static_cast<const char*>(weight.storage.data()),
                     static_cast<size_t>(weight.count * weight.matrix_bytes));
}

// Loads rank 1 of 2 from these tensors under a golden model's config.json.
absl::StatusOr<Packed> LoadExperts(const TensorSpecs& tensors,
                                   const std::string& config_dir) {
  const TempFolder folder;
  folder.Write("model.safetensors", SafetensorsBytes(tensors));
  const auto config = LoadModelConfig(config_dir);
  if (!config.ok()) return config.status();
  const auto shape = MakeLocalShape(*config, 1, 2);
  if (!shape.ok()) return shape.status();
  const auto checkpoint = Checkpoint::Open(folder.path());
  if (!checkpoint.ok()) return checkpoint.status();
  FakeBackend backend;
  const auto weights = LoadWeights(*checkpoint, *config, *shape, backend);
  if (!weights.ok()) return weights.status();
  Packed packed;
  for (const LayerWeights& layer : weights->layers) {
    const auto& moe = std::get<MoeWeights>(layer.feed_forward);
    packed.push_back(BytesOf(moe.experts_gate_up));
    packed.push_back(BytesOf(moe.experts_down));
  }
  return packed;
}

constexpr char kMoe[] = GOLDEN_DIR "/models/moe";
constexpr char kMoeText[] = GOLDEN_DIR "/models/moe_text";

// The text model's tensors of `moe`, under another prefix.
TensorSpecs MoeUnder(const std::string& prefix) {
  const std::string old = "model.language_model.";
  TensorSpecs out;
  for (const auto& [name, tensor] : ReadTensors(kMoe))
    out[absl::StartsWith(name, old) ? prefix + name.substr(old.size()) : name] =
        tensor;
  return out;
}

// Cuts fused experts of one layer into single ones.
void Unfuse(TensorSpecs& tensors, const std::string& layer) {
  const std::string where = "model.language_model.layers." + layer + ".mlp.";
  const TensorSpec gate_up = tensors.at(where + "experts.gate_up_proj");
  const TensorSpec down = tensors.at(where + "experts.down_proj");
  tensors.erase(where + "experts.gate_up_proj");
  tensors.erase(where + "experts.down_proj");
  const size_t experts = static_cast<size_t>(gate_up.shape[0]);
  const int64_t width = gate_up.shape[1] / 2;
  const int64_t hidden = gate_up.shape[2];
  const size_t half = gate_up.data.size() / experts / 2;
  for (size_t e = 0; e < experts; ++e) {
    const std::string expert = where + "experts." + std::to_string(e) + ".";
    tensors[expert + "gate_proj.weight"] = {
        "BF16", {width, hidden}, gate_up.data.substr(2 * e * half, half)};
    tensors[expert + "up_proj.weight"] = {
        "BF16", {width, hidden}, gate_up.data.substr((2 * e + 1) * half, half)};
    tensors[expert + "down_proj.weight"] = {
        "BF16", {hidden, width}, down.data.substr(e * half, half)};
  }
}

TEST(LoadWeights, ReadsFusedAndSingleExpertsAlike) {
  TensorSpecs tensors = ReadTensors(kMoe);
  const auto fused = LoadExperts(tensors, kMoe);
  Unfuse(tensors, "1");
  Unfuse(tensors, "3");
  const auto mixed = LoadExperts(tensors, kMoe);
  ASSERT_OK(fused);
  ASSERT_OK(mixed);
  EXPECT_EQ(*fused, *mixed);
}

TEST(LoadWeights, AcceptsEveryPrefixOfTheLanguageModel) {
  const auto expected = LoadExperts(ReadTensors(kMoe), kMoe);
  ASSERT_OK(expected);
  for (const char* prefix : {"language_model.", "model."}) {
    const auto loaded = LoadExperts(MoeUnder(prefix), kMoe);
    ASSERT_OK(loaded);
    EXPECT_EQ(*loaded, *expected);
  }
}

TEST(LoadWeights, PassesOverHeadTowerAndScales) {
  TensorSpecs tensors = ReadTensors(kMoeText);
  for (const char* name :
       {"mtp.fc.weight", "model.visual.a", "visual.b",
        "model.layers.0.self_attn.k_scale", "model.layers.0.self_attn.v_scale"})
    tensors[name] = {"F16", {1}, "xx"};
  EXPECT_OK(LoadExperts(tensors, kMoeText));
}

// A first tensor of one byte shifts all others; of two names that differ by a
// byte, one leaves them at odd addresses whatever the header's length.
TEST(LoadWeights, ReadsTensorsAtOddAddresses) {
  const TensorSpecs tensors = ReadTensors(kMoeText);
  const auto expected = LoadExperts(tensors, kMoeText);
  ASSERT_OK(expected);
  for (const char* name : {"a.k_scale", "aa.k_scale"}) {
    TensorSpecs shifted = tensors;
    shifted[name] = {"U8", {1}, "x"};
    const auto loaded = LoadExperts(shifted, kMoeText);
    ASSERT_OK(loaded);
    EXPECT_EQ(*loaded, *expected);
  }
}

struct Refusal {
  const char* name;
  std::function<void(TensorSpecs&)> change;  // Of moe_text.
  std::vector<std::string> messages;
};

class LoadWeightsRefuses : public testing::TestWithParam<Refusal> {};

TEST_P(LoadWeightsRefuses, NamingTheTensor) {
  TensorSpecs tensors = ReadTensors(kMoeText);
  GetParam().change(tensors);
  const auto loaded = LoadExperts(tensors, kMoeText);
  for (const std::string& message : GetParam().messages)
    EXPECT_THAT(loaded,
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr(message)));
}

constexpr char kQProj[] = "model.layers.0.self_attn.q_proj.weight";

INSTANTIATE_TEST_SUITE_P(
    All, LoadWeightsRefuses,
    testing::Values(
        Refusal{"Missing",
                [](TensorSpecs& t) { t.erase(kQProj); },
                {"1 missing (model.layers.0.self_attn.q_proj.weight)"}},
        Refusal{"MissingExpert",
                [](TensorSpecs& t) {
                  t.erase("model.layers.2.mlp.experts.11.up_proj.weight");
                },
                {"1 missing (model.layers.2.mlp.experts.11.up_proj.weight)"}},
        Refusal{"Unexpected",
                [](TensorSpecs& t) {
                  t["model.layers.0.self_attn.q_proj.bias"] =
                      TensorSpec{"BF16", {1}, "xx"};
                },
                {"1 unexpected (model.layers.0.self_attn.q_proj.bias)"}},
        Refusal{"LayerTooMany",
                [](TensorSpecs& t) {
                  t["model.layers.5.input_layernorm.weight"] =
                      t["model.norm.weight"];
                },
                {"1 unexpected (model.layers.5.input_layernorm.weight)"}},
        Refusal{"ExpertTooMany",
                [](TensorSpecs& t) {
                  t["model.layers.0.mlp.experts.12.up_proj.weight"] =
                      t["model.layers.0.mlp.experts.11.up_proj.weight"];
                },
                {"1 unexpected (model.layers.0.mlp.experts.12"}},
        Refusal{"HeadOfATiedModel",
                [](TensorSpecs& t) {
                  t["lm_head.weight"] = t["model.embed_tokens.weight"];
                },
                {"1 unexpected (lm_head.weight)"}},
        Refusal{"TwoPrefixes",
                [](TensorSpecs& t) {
                  t["language_model.norm.weight"] = t["model.norm.weight"];
                },
                {"1 unexpected (model.norm.weight)"}},
        Refusal{"Shape",
                [](TensorSpecs& t) {
                  t[kQProj].shape = {80, 288};
                },
                {"1 of a wrong shape or type "
                 "(model.layers.0.self_attn.q_proj.weight is BF16 [80,288], "
                 "must be BF16 [288,80])"}},
        Refusal{"Rank",
                [](TensorSpecs& t) {
                  t[kQProj].shape = {1, 288, 80};
                },
                {"is BF16 [1,288,80]"}},
        Refusal{"Type",
                [](TensorSpecs& t) { t[kQProj].dtype = "F16"; },
                {"q_proj.weight is F16 [288,80]"}},
        Refusal{"Norm32",
                [](TensorSpecs& t) {
                  TensorSpec& norm = t["model.norm.weight"];
                  norm.dtype = "F32";
                  norm.data += norm.data;
                },
                {"model.norm.weight is F32 [80], must be BF16 [80]"}},
        Refusal{"AllAtOnce",
                [](TensorSpecs& t) {
                  t.erase(kQProj);
                  t["strange"] = TensorSpec{"BF16", {1}, "xx"};
                  t["model.norm.weight"].dtype = "F16";
                },
                {"1 missing (model.layers.0.self_attn.q_proj.weight); 1 "
                 "unexpected (strange); 1 of a wrong shape or type "
                 "(model.norm.weight is F16"}},
        Refusal{"Nothing",
                [](TensorSpecs& t) { t.clear(); },
                // 5 layers with 7 common tensors and 2 fused ones, 2 of
                // attention with 6 more, 3 of the delta net with 9, and 2.
                {"86 missing (model.embed_tokens.weight", ", ...)"}}),
    [](const auto& info) { return info.param.name; });

TEST(LoadWeights, BoundsItsComplaint) {
  TensorSpecs tensors = ReadTensors(kMoeText);
  for (int i = 0; i < 5000; ++i)
    tensors["strange." + std::to_string(i) + std::string(400, 'x')] = {
        "BF16", {1}, "xx"};
  const auto loaded = LoadExperts(tensors, kMoeText);
  EXPECT_THAT(loaded,
              StatusIs(absl::StatusCode::kDataLoss,
                       AllOf(HasSubstr("5000 unexpected"), HasSubstr("..."))));
  EXPECT_LT(loaded.status().message().size(), 8192u);
}

}  // namespace
}  // namespace phalanx
