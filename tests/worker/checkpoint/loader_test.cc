#include "worker/checkpoint/loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "absl/strings/match.h"
#include "kernels/bf16.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/checkpoint/checkpoint_files.h"
#include "tests/worker/checkpoint/fake_backend.h"
#include "tests/worker/checkpoint/plain_tensors.h"

namespace phalanx {
namespace {

constexpr char kMoe[] = GOLDEN_DIR "/models/moe";
constexpr char kMoeText[] = GOLDEN_DIR "/models/moe_text";
constexpr char kFp8[] = GOLDEN_DIR "/models/moe_fp8";
constexpr char kNext[] = GOLDEN_DIR "/models/next";
constexpr char kDense[] = GOLDEN_DIR "/models/dense";
constexpr char kMini[] = SOURCE_ROOT "/deploy/models/phalanx-mini";

using Row = std::vector<uint16_t>;
using Matrix = std::vector<Row>;

// The stored tensors in the plain dialect, cut here in the plainest way, as the
// loader's yardstick: it uses nothing of the loader but names of files.
class Yardstick {
 public:
  explicit Yardstick(const std::string& model_dir)
      : tensors_(ReadPlainTensors(model_dir)) {}

  const TensorSpecs& tensors() const { return tensors_; }
  const TensorSpec& at(const std::string& name) const {
    return tensors_.at(name);
  }

  // Matrix `index` of a bf16 tensor.
  Matrix Whole(const std::string& name, int64_t index = 0) const {
    const TensorSpec& tensor = at(name);
    const int64_t cols = tensor.shape.back();
    const int64_t rows = tensor.shape[tensor.shape.size() - 2];
    Matrix matrix(static_cast<size_t>(rows), Row(static_cast<size_t>(cols)));
    for (int64_t r = 0; r < rows; ++r)
      std::memcpy(matrix[static_cast<size_t>(r)].data(),
                  tensor.data.data() + ((index * rows + r) * cols) * 2,
                  static_cast<size_t>(cols * 2));
    return matrix;
  }

  std::vector<float> Floats(const std::string& name) const {
    const TensorSpec& tensor = at(name);
    std::vector<float> values;
    const size_t size = tensor.dtype == "F32" ? 4 : 2;
    for (size_t i = 0; i < tensor.data.size(); i += size) {
      float value = 0;
      uint16_t bits = 0;
      if (size == 4)
        std::memcpy(&value, tensor.data.data() + i, 4);
      else
        std::memcpy(&bits, tensor.data.data() + i, 2);
      values.push_back(size == 4 ? value : Bf16ToF32(bits));
    }
    return values;
  }

 private:
  TensorSpecs tensors_;
};

Matrix RowsOf(const Matrix& matrix, int64_t first, int64_t count) {
  return Matrix(matrix.begin() + first, matrix.begin() + first + count);
}

Matrix ColumnsOf(const Matrix& matrix, int64_t first, int64_t count) {
  Matrix out;
  for (const Row& row : matrix)
    out.push_back(Row(row.begin() + first, row.begin() + first + count));
  return out;
}

Matrix Stack(std::initializer_list<Matrix> parts) {
  Matrix out;
  for (const Matrix& part : parts)
    out.insert(out.end(), part.begin(), part.end());
  return out;
}

Matrix Unpack(const PackedWeight& weight, int64_t index = 0) {
  Matrix out(static_cast<size_t>(weight.rows),
             Row(static_cast<size_t>(weight.cols)));
  const auto* data = static_cast<const uint16_t*>(weight.storage.data()) +
                     index * weight.rows * weight.cols;
  for (int64_t r = 0; r < weight.rows; ++r)
    std::copy_n(data + r * weight.cols, weight.cols,
                out[static_cast<size_t>(r)].begin());
  return out;
}

std::vector<float> FloatsOf(const Tensor& tensor) {
  const auto* data = static_cast<const float*>(tensor.data);
  return std::vector<float>(data, data + tensor.elements());
}

std::vector<float> OnePlus(std::vector<float> values) {
  for (float& value : values) value = 1.0f + value;
  return values;
}

std::vector<float> Part(const std::vector<float>& values, int64_t first,
                        int64_t count) {
  return std::vector<float>(values.begin() + first,
                            values.begin() + first + count);
}

struct Rank {
  ModelConfig config;
  LocalShape shape;
  Weights weights;
};

// Loads one rank of `model_dir`; the caller asserts on `out->ok()`.
absl::StatusOr<Rank> LoadRank(const std::string& model_dir, int rank,
                              int tp_size, Backend& backend) {
  Rank out;
  auto config = LoadModelConfig(model_dir);
  if (!config.ok()) return config.status();
  auto shape = MakeLocalShape(*config, rank, tp_size);
  if (!shape.ok()) return shape.status();
  auto checkpoint = Checkpoint::Open(model_dir);
  if (!checkpoint.ok()) return checkpoint.status();
  auto weights = LoadWeights(*checkpoint, *config, *shape, backend);
  if (!weights.ok()) return weights.status();
  return Rank{*std::move(config), *shape, *std::move(weights)};
}

struct Case {
  const char* name;
  const char* model_dir;
  const char* prefix;
  int tp_size;
};

class LoadWeightsOf : public testing::TestWithParam<Case> {
 protected:
  LoadWeightsOf() : yardstick_(GetParam().model_dir) {}

  // Calls `check` with every rank's weights.
  void ForEachRank(const std::function<void(const Rank&)>& check) {
    for (int rank = 0; rank < GetParam().tp_size; ++rank) {
      SCOPED_TRACE(rank);
      FakeBackend backend;
      const auto loaded =
          LoadRank(GetParam().model_dir, rank, GetParam().tp_size, backend);
      ASSERT_OK(loaded);
      check(*loaded);
    }
  }

  // As ForEachRank, for the layers that have a part of this kind, with their
  // names' prefix.
  template <typename Part, typename Check>
  void ForEachLayer(Check check) {
    ForEachRank([&](const Rank& rank) {
      for (size_t i = 0; i < rank.weights.layers.size(); ++i) {
        const LayerWeights& layer = rank.weights.layers[i];
        const std::string prefix =
            GetParam().prefix + ("layers." + std::to_string(i) + ".");
        if constexpr (std::is_same_v<Part, LayerWeights>) {
          check(rank, layer, prefix);
        } else if constexpr (std::is_same_v<Part, MoeWeights>) {
          check(rank, std::get<MoeWeights>(layer.feed_forward), prefix);
        } else if (const Part* mixer = std::get_if<Part>(&layer.mixer)) {
          check(rank, *mixer, prefix);
        }
      }
    });
  }

  Yardstick yardstick_;
};

TEST_P(LoadWeightsOf, PutsVocabularyRowsWithZerosBehind) {
  const std::string embed =
      std::string(GetParam().prefix) + "embed_tokens.weight";
  ForEachRank([&](const Rank& rank) {
    const bool tied = rank.config.tie_word_embeddings;
    for (const bool head : {false, true}) {
      Matrix whole = yardstick_.Whole(head && !tied ? "lm_head.weight" : embed);
      whole.resize(
          static_cast<size_t>(rank.shape.vocab_rows * rank.shape.tp_size),
          Row(static_cast<size_t>(rank.config.hidden_size), 0));
      const Matrix expected =
          RowsOf(whole, rank.shape.first_vocab, rank.shape.vocab_rows);
      if (head) {
        EXPECT_EQ(Unpack(rank.weights.lm_head), expected);
      } else {
        for (int64_t r = 0; r < rank.shape.vocab_rows; ++r) {
          const auto* row = rank.weights.embed.row<uint16_t>(r);
          EXPECT_EQ(Row(row, row + rank.config.hidden_size),
                    expected[static_cast<size_t>(r)]);
        }
      }
    }
  });
}

TEST_P(LoadWeightsOf, PartsQueriesFromGatesAndReplicatesKvHeads) {
  ForEachLayer<AttentionWeights>([&](const Rank& rank,
                                     const AttentionWeights& attention,
                                     const std::string& layer) {
    const int64_t d = rank.config.head_dim;
    const int64_t local = rank.config.num_attention_heads / rank.shape.tp_size;
    const Matrix q = yardstick_.Whole(layer + "self_attn.q_proj.weight");
    Matrix queries;
    Matrix gates;
    for (int64_t h = 0; h < local; ++h) {
      const int64_t head = rank.shape.rank * local + h;
      queries = Stack({queries, RowsOf(q, head * 2 * d, d)});
      gates = Stack({gates, RowsOf(q, head * 2 * d + d, d)});
    }
    const int64_t group =
        rank.config.num_attention_heads / rank.config.num_key_value_heads;
    const int64_t first_kv = rank.shape.rank * local / group;
    const int64_t kv = std::max<int64_t>(1, local / group);
    const Matrix k = yardstick_.Whole(layer + "self_attn.k_proj.weight");
    const Matrix v = yardstick_.Whole(layer + "self_attn.v_proj.weight");
    EXPECT_EQ(Unpack(attention.qgkv),
              Stack({queries, gates, RowsOf(k, first_kv * d, kv * d),
                     RowsOf(v, first_kv * d, kv * d)}));
    EXPECT_EQ(Unpack(attention.o),
              ColumnsOf(yardstick_.Whole(layer + "self_attn.o_proj.weight"),
                        rank.shape.rank * local * d, local * d));
    EXPECT_EQ(FloatsOf(attention.q_norm),
              OnePlus(yardstick_.Floats(layer + "self_attn.q_norm.weight")));
    EXPECT_EQ(FloatsOf(attention.k_norm),
              OnePlus(yardstick_.Floats(layer + "self_attn.k_norm.weight")));
  });
}

TEST_P(LoadWeightsOf, CutsTheDeltaNetPartByPart) {
  ForEachLayer<GdnWeights>([&](const Rank& rank, const GdnWeights& gdn,
                               const std::string& layer) {
    const std::string where = layer + "linear_attn.";
    const ModelConfig& c = rank.config;
    const int64_t n = rank.shape.tp_size;
    const int64_t r = rank.shape.rank;
    const int64_t keys = c.linear_num_key_heads * c.linear_key_head_dim;
    const int64_t values = c.linear_num_value_heads * c.linear_value_head_dim;
    const int64_t nv = c.linear_num_value_heads / n;
    const Matrix qkv = yardstick_.Whole(where + "in_proj_qkv.weight");
    const auto rows = [&](const char* name, int64_t count) {
      return RowsOf(yardstick_.Whole(where + name), r * count, count);
    };
    EXPECT_EQ(Unpack(gdn.in_proj),
              Stack({RowsOf(qkv, r * keys / n, keys / n),
                     RowsOf(qkv, keys + r * keys / n, keys / n),
                     RowsOf(qkv, 2 * keys + r * values / n, values / n),
                     rows("in_proj_z.weight", values / n)}));
    EXPECT_EQ(Unpack(gdn.ba_proj), Stack({rows("in_proj_b.weight", nv),
                                          rows("in_proj_a.weight", nv)}));
    EXPECT_EQ(Unpack(gdn.out_proj),
              ColumnsOf(yardstick_.Whole(where + "out_proj.weight"),
                        r * values / n, values / n));
    const int64_t w = c.linear_conv_kernel_dim;
    const std::vector<float> conv = yardstick_.Floats(where + "conv1d.weight");
    std::vector<float> expected;
    for (const auto& [first, count] :
         {std::pair{r * keys / n, keys / n},
          std::pair{keys + r * keys / n, keys / n},
          std::pair{2 * keys + r * values / n, values / n}}) {
      const auto part = Part(conv, first * w, count * w);
      expected.insert(expected.end(), part.begin(), part.end());
    }
    EXPECT_EQ(FloatsOf(gdn.conv), expected);
    EXPECT_EQ(gdn.conv.dims[1], w);
    EXPECT_EQ(FloatsOf(gdn.a_log),
              Part(yardstick_.Floats(where + "A_log"), r * nv, nv));
    EXPECT_EQ(FloatsOf(gdn.dt_bias),
              Part(yardstick_.Floats(where + "dt_bias"), r * nv, nv));
    EXPECT_EQ(FloatsOf(gdn.norm), yardstick_.Floats(where + "norm.weight"));
  });
}

// For a dense model's MLP see loader_dense_test.cc.
class LoadExpertsOf : public LoadWeightsOf {};

TEST_P(LoadExpertsOf, CutsEveryExpertPartByPart) {
  ForEachLayer<MoeWeights>(
      [&](const Rank& rank, const MoeWeights& moe, const std::string& layer) {
        const std::string where = layer + "mlp.experts.";
        const int64_t all = rank.config.moe_intermediate_size;
        const int64_t width = all / rank.shape.tp_size;
        const int64_t first = rank.shape.rank * width;
        EXPECT_EQ(moe.experts_gate_up.layout, WeightLayout::kGateUp);
        ASSERT_EQ(moe.experts_gate_up.count, rank.config.num_experts);
        for (int64_t e = 0; e < rank.config.num_experts; ++e) {
          Matrix gate_up;
          Matrix down;
          if (yardstick_.tensors().contains(where + "gate_up_proj")) {
            gate_up = yardstick_.Whole(where + "gate_up_proj", e);
            down = yardstick_.Whole(where + "down_proj", e);
          } else {
            const std::string expert = where + std::to_string(e) + ".";
            gate_up = Stack({yardstick_.Whole(expert + "gate_proj.weight"),
                             yardstick_.Whole(expert + "up_proj.weight")});
            down = yardstick_.Whole(expert + "down_proj.weight");
          }
          EXPECT_EQ(Unpack(moe.experts_gate_up, e),
                    Stack({RowsOf(gate_up, first, width),
                           RowsOf(gate_up, all + first, width)}));
          EXPECT_EQ(Unpack(moe.experts_down, e), ColumnsOf(down, first, width));
        }
      });
}

TEST_P(LoadExpertsOf, CutsTheSharedExpertAndKeepsTheRouterWhole) {
  ForEachLayer<MoeWeights>([&](const Rank& rank, const MoeWeights& moe,
                               const std::string& layer) {
    const int64_t width =
        rank.config.shared_expert_intermediate_size / rank.shape.tp_size;
    const int64_t first = rank.shape.rank * width;
    const auto shared = [&](const char* name) {
      return yardstick_.Whole(layer + "mlp.shared_expert." + name + ".weight");
    };
    EXPECT_EQ(moe.shared_gate_up.layout, WeightLayout::kGateUp);
    EXPECT_EQ(Unpack(moe.shared_gate_up),
              Stack({RowsOf(shared("gate_proj"), first, width),
                     RowsOf(shared("up_proj"), first, width)}));
    EXPECT_EQ(Unpack(moe.shared_down),
              ColumnsOf(shared("down_proj"), first, width));
    EXPECT_EQ(Unpack(moe.router), yardstick_.Whole(layer + "mlp.gate.weight"));
    EXPECT_EQ(Unpack(moe.shared_gate),
              yardstick_.Whole(layer + "mlp.shared_expert_gate.weight"));
  });
}

TEST_P(LoadWeightsOf, FoldsOneIntoTheNormsInF32) {
  ForEachLayer<LayerWeights>([&](const Rank&, const LayerWeights& weights,
                                 const std::string& layer) {
    EXPECT_EQ(FloatsOf(weights.mixer_norm),
              OnePlus(yardstick_.Floats(layer + "input_layernorm.weight")));
    EXPECT_EQ(
        FloatsOf(weights.feed_forward_norm),
        OnePlus(yardstick_.Floats(layer + "post_attention_layernorm.weight")));
  });
  ForEachRank([&](const Rank& rank) {
    EXPECT_EQ(FloatsOf(rank.weights.norm),
              OnePlus(yardstick_.Floats(std::string(GetParam().prefix) +
                                        "norm.weight")));
  });
}

// How often the group holds a tensor: once, unless ranks have it whole or share
// a KV head.
int64_t Copies(const std::string& name, const ModelConfig& config,
               int64_t tp_size) {
  for (const char* whole :
       {"layernorm.weight", "q_norm.weight", "k_norm.weight", "norm.weight",
        "mlp.gate.weight", "shared_expert_gate.weight"})
    if (absl::EndsWith(name, whole)) return tp_size;
  if (absl::StrContains(name, "k_proj") || absl::StrContains(name, "v_proj"))
    return std::max<int64_t>(1, tp_size / config.num_key_value_heads);
  return 1;
}

TEST_P(LoadWeightsOf, HoldsOverAllRanksEachByteOnceAndTheReplicatedOnesMore) {
  int64_t experts = 0;
  int64_t others = 0;
  ModelConfig config;
  ForEachRank([&](const Rank& rank) {
    experts += rank.weights.expert_bytes;
    others += rank.weights.non_expert_bytes;
    config = rank.config;
  });
  int64_t expected_experts = 0;
  int64_t expected_others = 0;
  for (const auto& [name, tensor] : yardstick_.tensors()) {
    if (absl::StartsWith(name, "mtp.") || absl::StrContains(name, "visual"))
      continue;
    const int64_t bytes = static_cast<int64_t>(tensor.data.size());
    if (absl::StrContains(name, "mlp.experts."))
      expected_experts += bytes;
    else
      expected_others += bytes * Copies(name, config, GetParam().tp_size);
  }
  EXPECT_EQ(experts, expected_experts);
  EXPECT_EQ(others, expected_others);
}

const auto kWithExperts = testing::Values(
    Case{"Moe1", kMoe, "model.language_model.", 1},
    Case{"Moe2", kMoe, "model.language_model.", 2},
    Case{"Moe4", kMoe, "model.language_model.", 4},
    Case{"Moe8", kMoe, "model.language_model.", 8},
    Case{"MoeText1", kMoeText, "model.", 1},
    Case{"MoeText2", kMoeText, "model.", 2},
    Case{"Fp8At1", kFp8, "model.language_model.", 1},
    Case{"Fp8At2", kFp8, "model.language_model.", 2},
    Case{"Fp8At4", kFp8, "model.language_model.", 4},
    Case{"Fp8At8", kFp8, "model.language_model.", 8},
    Case{"Next1", kNext, "model.", 1}, Case{"Next2", kNext, "model.", 2},
    Case{"Next4", kNext, "model.", 4},
    Case{"Mini1", kMini, "model.language_model.", 1},
    Case{"Mini2", kMini, "model.language_model.", 2},
    Case{"Mini4", kMini, "model.language_model.", 4},
    Case{"Mini8", kMini, "model.language_model.", 8});
const auto kWithoutExperts = testing::Values(
    Case{"Dense1", kDense, "model.", 1}, Case{"Dense2", kDense, "model.", 2},
    Case{"Dense4", kDense, "model.", 4});
constexpr auto kName = [](const auto& info) { return info.param.name; };

INSTANTIATE_TEST_SUITE_P(All, LoadExpertsOf, kWithExperts, kName);
INSTANTIATE_TEST_SUITE_P(All, LoadWeightsOf, kWithExperts, kName);
INSTANTIATE_TEST_SUITE_P(Dense, LoadWeightsOf, kWithoutExperts, kName);

TEST(LoadWeights, GivesAllMemoryBack) {
  FakeBackend backend;
  ASSERT_OK(LoadRank(kMoe, 0, 2, backend));
  EXPECT_EQ(backend.allocated_bytes(MemoryComponent::kRoutedExperts), 0);
  EXPECT_EQ(backend.allocated_bytes(MemoryComponent::kAttention), 0);
}

TEST(LoadWeights, CountsExpertsApartFromTheRest) {
  FakeBackend backend;
  const auto rank = LoadRank(kMini, 0, 4, backend);
  ASSERT_OK(rank);
  EXPECT_EQ(backend.allocated_bytes(MemoryComponent::kRoutedExperts),
            rank->weights.expert_bytes);
}

TEST(LoadWeights, PassesOnThatMemoryIsShort) {
  FakeBackend backend;
  backend.capacity_bytes = 1000;
  EXPECT_THAT(LoadRank(kMoe, 0, 1, backend),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       testing::HasSubstr("embed_tokens needs 65280 bytes")));
  EXPECT_EQ(backend.allocated_bytes(MemoryComponent::kAttention), 0);
}

// model_spec.md 2.9.
TEST(LoadWeights, ComputesFrequenciesInDoublePrecision) {
  auto config = LoadModelConfig(kMoe);
  ASSERT_OK(config);
  config->rotary_dim = 64;
  const auto shape = MakeLocalShape(*config, 0, 1);
  ASSERT_OK(shape);
  const auto checkpoint = Checkpoint::Open(kMoe);
  ASSERT_OK(checkpoint);
  FakeBackend backend;
  const auto weights = LoadWeights(*checkpoint, *config, *shape, backend);
  ASSERT_OK(weights);
  const std::vector<float> inv_freq = FloatsOf(weights->inv_freq);
  ASSERT_EQ(inv_freq.size(), 32u);
  EXPECT_EQ(inv_freq[0], 1.0f);
  EXPECT_FLOAT_EQ(inv_freq[1], 0.60429639f);
  EXPECT_FLOAT_EQ(inv_freq[31], 1.65481710e-7f);
}

}  // namespace
}  // namespace phalanx
