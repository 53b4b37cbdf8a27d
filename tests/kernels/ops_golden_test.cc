// Every backend against tests/golden/ops: outputs in f64 from the reference
// implementation's formulas. Limits: 1e-5 of the RMS of the output (1e-4 for
// the delta rule and long attention), and one bf16 rounding where the op
// stores bf16.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "kernels/bf16.h"
#include "tests/kernels/ops_contract.h"
#include "tests/kernels/sequence_set.h"
#include "tests/support/golden_file.h"

namespace phalanx {
namespace {

using testing::UnorderedElementsAre;

// No op of ours, and why. All others have a test below.
const std::map<std::string, std::string> kNoOpOfOurs = {
    {"fp8_e4m3_decode", "the loader's: tests/worker/checkpoint/fp8_test.cc"},
    {"fp8_block_dequantise", "the same"},
};

struct GoldenCase {
  std::string name;
  nlohmann::json inputs, outputs, params;
};

class OpsGolden : public OpsContract {
 protected:
  static const GoldenFile& File() {
    static const GoldenFile file(GOLDEN_DIR "/ops/ops.safetensors");
    return file;
  }

  static const nlohmann::json& Index() {
    static const nlohmann::json index =
        ReadGoldenJson(GOLDEN_DIR "/ops/ops.json");
    return index;
  }

  static std::vector<GoldenCase> Cases(const std::string& op) {
    std::vector<GoldenCase> cases;
    for (const nlohmann::json& entry : Index()) {
      if (entry.at("op") != op) continue;
      cases.push_back({entry.at("name"), entry.at("inputs"),
                       entry.at("outputs"), entry.at("params")});
    }
    EXPECT_FALSE(cases.empty()) << op;
    return cases;
  }

  static GoldenTensor In(const GoldenCase& c, const std::string& name) {
    return File().Get(c.inputs.at(name).get<std::string>());
  }
  static GoldenTensor Out(const GoldenCase& c, const std::string& name) {
    return File().Get(c.outputs.at(name).get<std::string>());
  }

  Tensor Act(const GoldenTensor& t) { return rig_.Act(t.shape, t.floats()); }
  Tensor F32(const GoldenTensor& t) { return rig_.F32(t.shape, t.floats()); }

  // `of_rms` of the RMS of what is wanted, and a rounding if y is of type act.
  void ExpectGolden(const Tensor& y, const std::vector<double>& want,
                    double of_rms) {
    const Floats got = rig_.Read(y);
    ASSERT_EQ(got.size(), want.size());
    const double rms = std::sqrt(
        std::inner_product(want.begin(), want.end(), want.begin(), 0.0) /
        static_cast<double>(want.size()));
    const double of_value = y.dtype == DType::kBf16 ? kBf16Rounding : 0;
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(got[i], want[i], of_rms * rms + of_value * std::abs(want[i]))
          << "element " << i << " of RMS " << rms;
    }
  }

  // A tensor that the op takes as act but the golden holds in f32.
  bool Representable(const GoldenTensor& t) {
    return !rig_.rounds() ||
           std::all_of(t.values.begin(), t.values.end(), [](double value) {
             return RoundToBf16(static_cast<float>(value)) == value;
           });
  }
};

TEST_P(OpsGolden, HasATestOrAReasonForEveryCase) {
  std::map<std::string, int> counts;
  for (const nlohmann::json& entry : Index())
    ++counts[entry.at("op").get<std::string>()];
  for (const auto& [op, reason] : kNoOpOfOurs) EXPECT_EQ(counts.erase(op), 1u);

  EXPECT_THAT(counts,
              UnorderedElementsAre(
                  std::pair("rmsnorm0", 8), std::pair("gated_norm", 5),
                  std::pair("l2norm", 5), std::pair("rope", 5),
                  std::pair("conv1d_silu", 7), std::pair("gates", 2),
                  std::pair("delta_rule", 7), std::pair("attention", 7),
                  std::pair("silu_mul", 3), std::pair("softmax", 5),
                  std::pair("router", 11), std::pair("expert_combine", 2),
                  std::pair("bf16_round", 1), std::pair("linear", 3)));
}

TEST_P(OpsGolden, RmsNorm) {
  for (const GoldenCase& c : Cases("rmsnorm0")) {
    SCOPED_TRACE(c.name);
    const GoldenTensor x = In(c, "x");
    Floats w = In(c, "w").floats();
    for (float& value : w) value += 1;
    const Tensor y = rig_.Act(x.shape);

    ops_.RmsNorm(Act(x), rig_.Param({x.shape[1]}, w),
                 c.params.at("eps").get<float>(), y);

    ExpectGolden(y, Out(c, "y").values, 1e-5);
  }
}

TEST_P(OpsGolden, GatedRmsNorm) {
  for (const GoldenCase& c : Cases("gated_norm")) {
    SCOPED_TRACE(c.name);
    const GoldenTensor x = In(c, "x"), w = In(c, "w");
    const Tensor y = rig_.Act(x.shape);

    ops_.GatedRmsNorm(F32(x), Act(In(c, "z")), rig_.Param(w.shape, w.floats()),
                      c.params.at("eps").get<float>(), y);

    ExpectGolden(y, Out(c, "y").values, 1e-5);
  }
}

TEST_P(OpsGolden, L2Norm) {
  for (const GoldenCase& c : Cases("l2norm")) {
    SCOPED_TRACE(c.name);
    const GoldenTensor x = In(c, "x");
    const Dims dims = {x.shape[0], 1, x.shape[1]};
    const Tensor y = rig_.F32(dims);

    ops_.L2Norm(rig_.F32(dims, x.floats()), 1, y);

    ExpectGolden(y, Out(c, "y").values, 1e-5);
  }
}

// The golden was made with frequencies whose f32 power was off by up to 2 last
// bits and did not keep them. Of the neighbours of each exact frequency this
// takes the one that explains the golden best, by the formula in double, so
// that the op is still held to every row.
Floats FrequenciesOfGolden(const GoldenTensor& exact, const GoldenTensor& x,
                           const GoldenTensor& y, const Ints& positions) {
  const int64_t F = exact.elements(), row = x.shape[1] * x.shape[2];
  Floats chosen(F);
  for (int64_t i = 0; i < F; ++i) {
    auto candidate = static_cast<float>(exact.values[i]);
    double best = std::numeric_limits<double>::infinity();
    for (int step = 0; step < 3; ++step)
      candidate = std::nextafter(candidate, 0.0f);
    for (int step = 0; step < 7; ++step) {
      double worst = 0;
      for (size_t t = 0; t < positions.size(); ++t) {
        const float angle = static_cast<float>(positions[t]) * candidate;
        const double* head = &x.values[t * row];
        const double got = head[i] * std::cos(double{angle}) -
                           head[i + F] * std::sin(double{angle});
        worst = std::max(worst, std::abs(got - y.values[t * row + i]));
      }
      if (worst < best) {
        best = worst;
        chosen[i] = candidate;
      }
      candidate = std::nextafter(candidate, 2.0f);
    }
  }
  return chosen;
}

TEST_P(OpsGolden, RopeWithAnglesRoundedToF32) {
  for (const GoldenCase& c : Cases("rope")) {
    SCOPED_TRACE(c.name);
    const GoldenTensor positions = In(c, "positions"), in = In(c, "x");
    const GoldenTensor exact = Out(c, "inv_freq"), want = Out(c, "y_f32_angle");
    const Floats inv_freq =
        FrequenciesOfGolden(exact, in, want, positions.ints());
    const Tensor x = Act(in);

    ops_.Rope(rig_.I32(positions.shape, positions.ints()),
              rig_.Param(exact.shape, inv_freq), x);

    ExpectGolden(x, want.values, 1e-5);
  }
}

TEST_P(OpsGolden, ConvSilu) {
  for (const GoldenCase& c : Cases("conv1d_silu")) {
    SCOPED_TRACE(c.name);
    const GoldenTensor x = In(c, "x"), state_in = In(c, "state_in");
    const int64_t T = x.shape[0], C = x.shape[1], W = state_in.shape[0] + 1;
    const SequenceSet set(rig_, {{T, 1}});
    Floats slots(2 * (W - 1) * C, 0);
    const Floats window = state_in.floats();
    std::copy(window.begin(), window.end(), slots.begin() + (W - 1) * C);
    const Tensor state = rig_.Act({2, W - 1, C}, slots);
    const Tensor y = rig_.F32({T, C});

    ops_.ConvSilu(Act(x), rig_.Param({C, W}, In(c, "w").floats()),
                  set.sequences, state, y);

    ExpectGolden(y, Out(c, "y").values, 1e-5);
    EXPECT_EQ(rig_.Read(Rows(state, 1, 1)), Out(c, "state_out").floats());
  }
}

TEST_P(OpsGolden, GdnGates) {
  for (const GoldenCase& c : Cases("gates")) {
    SCOPED_TRACE(c.name);
    const GoldenTensor a = In(c, "a"), b = In(c, "b");
    const GoldenTensor a_log = In(c, "a_log"), dt_bias = In(c, "dt_bias");
    if (!Representable(a) || !Representable(b)) continue;
    const Tensor g = rig_.F32(a.shape), beta = rig_.F32(a.shape);

    ops_.GdnGates(Act(a), Act(b), rig_.Param(a_log.shape, a_log.floats()),
                  rig_.Param(dt_bias.shape, dt_bias.floats()), g, beta);

    ExpectGolden(g, Out(c, "g").values, 1e-5);
    ExpectGolden(beta, Out(c, "beta").values, 1e-5);
  }
}

// The golden's state is [Nv, Dk, Dv]; ours is [Nv, Dv, Dk].
std::vector<double> SwapLastTwo(const GoldenTensor& t) {
  const int64_t N = t.shape[0], rows = t.shape[1], cols = t.shape[2];
  std::vector<double> swapped(t.values.size());
  for (int64_t n = 0; n < N; ++n) {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < cols; ++j)
        swapped[(n * cols + j) * rows + i] =
            t.values[(n * rows + i) * cols + j];
    }
  }
  return swapped;
}

TEST_P(OpsGolden, GatedDeltaAfterL2Norm) {
  for (const GoldenCase& c : Cases("delta_rule")) {
    SCOPED_TRACE(c.name);
    const GoldenTensor v = In(c, "v"), state_in = In(c, "state_in");
    const int64_t Dk = state_in.shape[1];
    const SequenceSet set(rig_, {{v.shape[0], 1}});
    Floats slots(2 * state_in.elements(), 0);
    const std::vector<double> before = SwapLastTwo(state_in);
    std::copy(before.begin(), before.end(), slots.begin() + before.size());
    const Tensor q = F32(In(c, "q")), k = F32(In(c, "k"));
    const Tensor state = rig_.F32({2, v.shape[1], v.shape[2], Dk}, slots);
    const Tensor y = rig_.F32(v.shape);

    ops_.L2Norm(q, 1 / std::sqrt(static_cast<float>(Dk)), q);
    ops_.L2Norm(k, 1, k);
    ops_.GatedDelta(q, k, F32(v), F32(In(c, "g")), F32(In(c, "beta")),
                    set.sequences, state, y);

    ExpectGolden(y, Out(c, "o").values, 1e-4);
    ExpectGolden(Rows(state, 1, 1), SwapLastTwo(Out(c, "state_out")), 1e-4);
  }
}

TEST_P(OpsGolden, PagedAttention) {
  for (const GoldenCase& c : Cases("attention")) {
    SCOPED_TRACE(c.name);
    const GoldenTensor q = In(c, "q"), k = In(c, "k");
    const Floats keys = k.floats(), values = In(c, "v").floats();
    const int64_t T = q.shape[0], Nk = k.shape[1], D = k.shape[2];
    const SequenceSet set(rig_, {{T, c.params.at("past").get<int64_t>()}});
    PagedCache cache(set.block_count, Nk, D);
    for (int64_t i = 0; i < k.shape[0]; ++i) {
      for (int64_t h = 0; h < Nk; ++h) {
        const int64_t to = cache.At(set.blocks[0], i, h);
        const int64_t from = (i * Nk + h) * D;
        std::copy_n(keys.begin() + from, D, cache.keys.begin() + to);
        std::copy_n(values.begin() + from, D, cache.values.begin() + to);
      }
    }
    const Tensor y = rig_.F32(q.shape);

    ops_.PagedAttention(Act(q), rig_.Act(cache.dims(), cache.keys),
                        rig_.Act(cache.dims(), cache.values), set.sequences,
                        c.params.at("scale").get<float>(), y);

    // Where probabilities are rounded, each term of the sum is.
    ExpectGolden(y, Out(c, "o").values,
                 1e-4 + (rig_.rounds() ? 4 * kBf16Rounding : 0));
  }
}

TEST_P(OpsGolden, SiluMulInsideGateUp) {
  for (const GoldenCase& c : Cases("silu_mul")) {
    SCOPED_TRACE(c.name);
    const GoldenTensor gate = In(c, "gate"), up = In(c, "up");
    const int64_t T = gate.shape[0], I = gate.shape[1];
    // The identity, so that the products are gate and up themselves.
    Floats x, identity(4 * I * I, 0);
    for (int64_t i = 0; i < 2 * I; ++i) identity[i * 2 * I + i] = 1;
    for (int64_t t = 0; t < T; ++t) {
      for (const GoldenTensor* half : {&gate, &up}) {
        x.insert(x.end(), half->values.begin() + t * I,
                 half->values.begin() + (t + 1) * I);
      }
    }
    const Tensor y = rig_.Act({T, I});

    ops_.GateUp(rig_.Act({T, 2 * I}, x),
                rig_.Weight(1, 2 * I, 2 * I, identity, WeightLayout::kGateUp),
                y);

    ExpectGolden(y, Out(c, "y").values, 1e-5);
  }
}

TEST_P(OpsGolden, SoftmaxInsideRoute) {
  for (const GoldenCase& c : Cases("softmax")) {
    SCOPED_TRACE(c.name);
    const GoldenTensor x = In(c, "x");
    const int64_t T = x.shape[0], E = x.shape[1];
    const Routing routing = rig_.NewRouting(T, E, E);

    ops_.Route(F32(x), /*renormalise=*/false, routing);

    ExpectGolden(routing.weight, Out(c, "y").values, 1e-5);
  }
}

TEST_P(OpsGolden, Route) {
  for (const GoldenCase& c : Cases("router")) {
    SCOPED_TRACE(c.name);
    const GoldenTensor logits = In(c, "logits"), ids = Out(c, "ids");
    const GoldenTensor weights = Out(c, "weights");
    const int64_t T = ids.shape[0], K = ids.shape[1];
    // By descending weight there, by ascending id here.
    Ints want_ids;
    std::vector<double> want_weights;
    for (int64_t t = 0; t < T; ++t) {
      std::map<int32_t, double> row;
      for (int64_t j = 0; j < K; ++j)
        row[ids.ints()[t * K + j]] = weights.values[t * K + j];
      for (const auto& [id, weight] : row) {
        want_ids.push_back(id);
        want_weights.push_back(weight);
      }
    }
    const Routing routing = rig_.NewRouting(T, logits.shape[1], K);

    ops_.Route(F32(logits), c.params.at("norm_topk_prob").get<bool>(), routing);

    EXPECT_EQ(rig_.ReadInts(routing.expert), want_ids);
    ExpectGolden(routing.weight, want_weights, 1e-5);
  }
}

// Row-major [values, 4] weights whose product with (1, 1, 1, 0) is the values:
// three bf16 numbers hold the 24 bits of an f32.
Floats AsThreeParts(const double* values, int64_t count) {
  Floats parts(4 * count, 0);
  for (int64_t i = 0; i < count; ++i) {
    const auto value = static_cast<float>(values[i]);
    const float high = RoundToBf16(value);
    const float middle = RoundToBf16(value - high);
    parts[4 * i] = high;
    parts[4 * i + 1] = middle;
    parts[4 * i + 2] = value - high - middle;
  }
  return parts;
}

TEST_P(OpsGolden, ExpertCombineInsideExpertsDown) {
  for (const GoldenCase& c : Cases("expert_combine")) {
    SCOPED_TRACE(c.name);
    const GoldenTensor outputs = In(c, "expert_outputs"), ids = In(c, "ids");
    const GoldenTensor weights = In(c, "weights"), shared = In(c, "shared");
    const GoldenTensor gate = In(c, "shared_gate"), want = Out(c, "y");
    const int64_t K = ids.shape[1], H = shared.shape[1];
    // Every token has outputs of its own: one at a time, with expert j of K
    // being the j-th in order of id.
    for (int64_t t = 0; t < ids.shape[0]; ++t) {
      std::map<int32_t, int64_t> by_id;
      for (int64_t j = 0; j < K; ++j) by_id[ids.ints()[t * K + j]] = j;
      Floats w, weight, hidden;
      Ints expert, offsets = {0};
      for (const auto& [id, j] : by_id) {
        const Floats rows = AsThreeParts(&outputs.values[(t * K + j) * H], H);
        w.insert(w.end(), rows.begin(), rows.end());
        weight.push_back(weights.floats()[t * K + j]);
        hidden.push_back(1);
        hidden.push_back(1);
        hidden.push_back(1);
        hidden.push_back(0);
        expert.push_back(static_cast<int32_t>(expert.size()));
        offsets.push_back(offsets.back() + 1);
      }
      const Routing routing = {
          rig_.I32({1, K}, expert), rig_.Param({1, K}, weight),
          rig_.I32({K + 1}, offsets), rig_.I32({K}, expert)};
      const Tensor y = rig_.F32({1, H});

      ops_.ExpertsDown(
          rig_.Act({K, 4}, hidden), rig_.Weight(K, H, 4, w), routing,
          rig_.Act({1, 4}, {1, 1, 1, 0}),
          rig_.Weight(1, H, 4, AsThreeParts(&shared.values[t * H], H)),
          rig_.Act({1, 1}, {gate.floats()[t]}), /*slices=*/1, y);

      ExpectGolden(
          y, {want.values.begin() + t * H, want.values.begin() + (t + 1) * H},
          1e-5);
    }
  }
}

TEST_P(OpsGolden, LinearIsMatMul) {
  for (const GoldenCase& c : Cases("linear")) {
    SCOPED_TRACE(c.name);
    const GoldenTensor x = In(c, "x"), w = In(c, "w");
    const Tensor y = rig_.F32({x.shape[0], w.shape[0]});

    ops_.MatMul(Act(x), rig_.Weight(1, w.shape[0], w.shape[1], w.floats()), y);

    ExpectGolden(y, Out(c, "y").values, 1e-5);
  }
}

TEST_P(OpsGolden, Bf16Round) {
  for (const GoldenCase& c : Cases("bf16_round")) {
    const GoldenTensor bits = In(c, "bits"), want = Out(c, "bf16_bits");
    for (int64_t i = 0; i < bits.elements(); ++i) {
      const auto f32_bits = static_cast<uint32_t>(bits.values[i]);
      float value;
      std::memcpy(&value, &f32_bits, sizeof(value));
      EXPECT_EQ(F32ToBf16(value), want.values[i]) << std::hex << f32_bits;
    }
  }
}

PHALANX_FOR_EVERY_BACKEND(OpsGolden);

}  // namespace
}  // namespace phalanx
