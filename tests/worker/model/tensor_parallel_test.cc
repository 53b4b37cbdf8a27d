// Inside one build equality is bitwise: the number of ranks, the cut of a
// prompt into steps and the neighbours in a step change no bit of the logits
// (design.md section 3).

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <ostream>

#include "common/units.h"
#include "kernels/cpu/isa.h"
#include "tests/support/generate.h"
#include "tests/support/status_matchers.h"
#include "tests/support/tp_group.h"
#include "tests/worker/model/sum_recorder.h"

namespace phalanx {
namespace {

constexpr int64_t kDecodeSteps = 16;
constexpr int64_t kMaxTokens = 320;
constexpr int64_t kSequences = 8;
constexpr int64_t kLaneBlocks = kMaxTokens / kKvBlockTokens;

struct Model {
  const char* name;
  std::vector<int> tp_sizes;
  int64_t parameter_bytes;  // Of A_log and the gated norm, as stored.

  std::string dir() const {
    return name == std::string("phalanx-mini")
               ? std::string(SOURCE_ROOT) + "/deploy/models/phalanx-mini"
               : std::string(GOLDEN_DIR) + "/models/" + name;
  }
};

void PrintTo(const Model& model, std::ostream* out) { *out << model.name; }

const Model kModels[] = {
    {"moe", {1, 2, 4, 8}, 4},     {"moe_text", {1, 2}, 2},
    {"moe_fp8", {1, 2, 4, 8}, 2}, {"next", {1, 2, 4}, 2},
    {"dense", {1, 2, 4}, 4},      {"phalanx-mini", {1, 2, 4, 8}, 4}};

// Any ids will do here: a fixed walk through the vocabulary.
std::vector<int32_t> Ids(int64_t count, int64_t vocab_size, int64_t start) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < count; ++i)
    ids.push_back(
        static_cast<int32_t>((start + 37 * i + i * i % 11) % vocab_size));
  return ids;
}

// --- Kernels ---------------------------------------------------------------

struct Kernels {
  Isa isa;
  KernelFamily family;
};

bool Runs(const Kernels& kernels) {
  return Supports(DetectCpu(), kernels.isa, kernels.family);
}

constexpr Kernels kPortable = {Isa::kPortable, KernelFamily::kFma};
constexpr Kernels kAvx2 = {Isa::kAvx2, KernelFamily::kFma};
constexpr Kernels kBf16Dot = {Isa::kAvx512, KernelFamily::kBf16Dot};

// The fastest way to the universal bits.
Kernels FmaKernels() {
  return {*ChooseIsa(DetectCpu(), /*forced=*/nullptr), KernelFamily::kFma};
}

std::unique_ptr<TpGroup> MakeGroup(const Model& model, int tp_size,
                                   const Kernels& kernels,
                                   int64_t sequences = 1) {
  return TpGroup::MustCreate(
      {.model_dir = model.dir(),
       .tp_size = tp_size,
       .backends = CpuBackends(kernels.isa, kernels.family),
       .limits = LaneLimits(sequences, kMaxTokens)});
}

Lane LaneOf(int32_t slot) {
  return TpGroup::MakeLane(slot, static_cast<int32_t>(slot * kLaneBlocks),
                           kMaxTokens);
}

// --- Equality --------------------------------------------------------------

bool SameBits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

// Compares whole rows, and prints no more than where they part.
void ExpectSameBits(const LogitRows& ours, const LogitRows& theirs,
                    const std::string& what) {
  ASSERT_EQ(ours.size(), theirs.size()) << what;
  for (size_t row = 0; row < ours.size(); ++row)
    ASSERT_TRUE(SameBits(ours[row], theirs[row])) << what << ", row " << row;
}

// All that must not depend on how a sequence is run.
struct Trace {
  LogitRows logits;
  std::vector<std::string> sums;  // See SumRecorder.
};

void ExpectSameTrace(const Trace& ours, const Trace& theirs,
                     const std::string& what) {
  ExpectSameBits(ours.logits, theirs.logits, what);
  ASSERT_EQ(ours.sums.size(), theirs.sums.size()) << what;
  for (size_t i = 0; i < ours.sums.size(); ++i)
    EXPECT_TRUE(ours.sums[i] == theirs.sums[i])
        << what << ", " << (i % 2 == 0 ? "mixer" : "feed-forward")
        << " of layer " << i / 2;
}

// While it lives, the sums of a group are written down.
class Recording {
 public:
  explicit Recording(TpGroup& group) : group_(group) {
    for (int r = 0; r < group.size(); ++r) {
      std::unique_ptr<Collective>& comm = group.rank(r).comm;
      auto recorder = std::make_unique<SumRecorder>(
          std::move(comm), 2 * group.config().num_layers());
      recorders_.push_back(recorder.get());
      comm = std::move(recorder);
    }
  }
  ~Recording() {
    for (int r = 0; r < group_.size(); ++r)
      group_.rank(r).comm = recorders_[r]->Release();
  }

  const std::vector<std::string>& sums() const { return recorders_[0]->rows(); }

 private:
  TpGroup& group_;
  std::vector<SumRecorder*> recorders_;
};

Trace TraceOf(TpGroup& group, Lane lane, std::span<const int32_t> prompt,
              int64_t chunk) {
  const Recording recording(group);
  Trace trace;
  trace.logits = Continue(group, lane, prompt, chunk, kDecodeSteps);
  trace.sums = recording.sums();
  return trace;
}

Trace TraceOf(TpGroup& group, std::span<const int32_t> prompt, int64_t chunk) {
  return TraceOf(group, LaneOf(0), prompt, chunk);
}

class TensorParallel : public testing::TestWithParam<Model> {
 protected:
  const Model& model() const { return GetParam(); }
  int largest() const { return model().tp_sizes.back(); }
  int64_t vocab() const {
    static std::map<std::string, int64_t> sizes;
    int64_t& size = sizes[model().name];
    if (size == 0) size = LoadModelConfig(model().dir())->vocab_size;
    return size;
  }
  std::vector<int32_t> Prompt(int64_t count, int64_t start = 5) const {
    return Ids(count, vocab(), start);
  }

  // The same prompts at every size, against one rank with `twin`.
  void ExpectSameAtEverySize(const Kernels& kernels, const Kernels& twin,
                             std::initializer_list<int64_t> lengths) {
    std::map<int64_t, Trace> alone;
    auto single = MakeGroup(model(), 1, twin);
    for (const int64_t length : lengths)
      alone[length] = TraceOf(*single, Prompt(length), 512);
    for (const int tp_size : model().tp_sizes) {
      auto group = MakeGroup(model(), tp_size, kernels);
      for (const int64_t length : lengths)
        ExpectSameTrace(TraceOf(*group, Prompt(length), 512), alone[length],
                        "TP " + std::to_string(tp_size) + ", prompt of " +
                            std::to_string(length));
    }
  }

  void ExpectSameInEveryChunk(const Kernels& kernels, int tp_size,
                              int64_t length,
                              std::initializer_list<int64_t> chunks) {
    const std::vector<int32_t> prompt = Prompt(length);
    auto group = MakeGroup(model(), tp_size, kernels);
    const Trace whole = TraceOf(*group, prompt, 512);
    for (const int64_t chunk : chunks)
      ExpectSameTrace(TraceOf(*group, prompt, chunk), whole,
                      "chunks of " + std::to_string(chunk));
  }
};

// --- Sizes -----------------------------------------------------------------

TEST_P(TensorParallel, EverySizeGivesTheSameLogits) {
  ExpectSameAtEverySize(FmaKernels(), FmaKernels(), {1, 2, 3, 65, 290});
}

TEST_P(TensorParallel, EverySizeGivesTheSameLogitsInPortableCode) {
  ExpectSameAtEverySize(kPortable, FmaKernels(), {3, 40});
}

TEST_P(TensorParallel, EverySizeGivesTheSameLogitsWithAvx2) {
  if (!Runs(kAvx2)) GTEST_SKIP() << "this processor has no AVX2";
  ExpectSameAtEverySize(kAvx2, FmaKernels(), {3, 65});
}

TEST_P(TensorParallel, EverySizeGivesTheSameLogitsWithBf16DotProducts) {
  if (!Runs(kBf16Dot)) GTEST_SKIP() << "this processor has no vdpbf16ps";
  ExpectSameAtEverySize(kBf16Dot, kBf16Dot, {1, 2, 3, 65, 290});
}

// --- Cuts ------------------------------------------------------------------

TEST_P(TensorParallel, EveryPrefillChunkGivesTheSameLogitsOnOneRank) {
  ExpectSameInEveryChunk(FmaKernels(), 1, 290, {1, 7, 16, 64});
}

TEST_P(TensorParallel, EveryPrefillChunkGivesTheSameLogitsOnTwoRanks) {
  ExpectSameInEveryChunk(FmaKernels(), 2, 290, {7, 16, 64});
}

TEST_P(TensorParallel, EveryPrefillChunkGivesTheSameLogitsInPortableCode) {
  ExpectSameInEveryChunk(kPortable, 1, 80, {7, 64});
}

TEST_P(TensorParallel, EveryPrefillChunkGivesTheSameLogitsWithBf16DotProducts) {
  if (!Runs(kBf16Dot)) GTEST_SKIP() << "this processor has no vdpbf16ps";
  ExpectSameInEveryChunk(kBf16Dot, 1, 290, {1, 7, 16, 64});
}

TEST_P(TensorParallel, PrefillIsPrefillOfAllButOneTokenAndADecodeStep) {
  auto group = MakeGroup(model(), 1, FmaKernels());
  for (const int64_t length : {2, 3, 64, 65, 129, 257}) {
    const std::vector<int32_t> prompt = Prompt(length);
    Lane whole = LaneOf(0);
    const auto expected = Prefill(*group, whole, prompt, 512);
    Lane cut = LaneOf(0);
    group->MustRun({cut.Take(std::span(prompt).first(length - 1), false)});
    EXPECT_TRUE(
        SameBits(group->MustRun({cut.Take(std::span(prompt).last(1), true)})[0],
                 expected))
        << length;
  }
}

// --- Neighbours ------------------------------------------------------------

// Seven others of other lengths in the same steps: some prefill beside the
// first rows of ours, some decode beside its last ones.
class Crowd {
 public:
  static constexpr int kOurs = 3;

  Crowd(TpGroup& group, std::vector<std::vector<int32_t>> prompts)
      : group_(group), ids_(std::move(prompts)) {
    ours_.sums.resize(2 * group.config().num_layers());
    for (size_t i = 0; i < ids_.size(); ++i)
      lanes_.push_back(LaneOf(static_cast<int32_t>(i)));
  }

  // Prefills in chunks of 16 rows, until ours has decoded enough.
  Trace Run() {
    const int64_t prompt = static_cast<int64_t>(ids_[kOurs].size());
    const Recording recording(group_);
    while (static_cast<int64_t>(ours_.logits.size()) <= kDecodeSteps) {
      std::vector<PlannedSequence> step;
      for (size_t i = 0; i < ids_.size(); ++i) {
        const auto rest = std::span(ids_[i]).subspan(lanes_[i].past);
        step.push_back(lanes_[i].Take(
            rest.first(std::min<size_t>(kChunk, rest.size())), true));
      }
      const LogitRows rows = group_.MustRun(step);
      KeepOurSums(step, recording.sums());
      if (lanes_[kOurs].past >= prompt) ours_.logits.push_back(rows[kOurs]);
      for (size_t i = 0; i < ids_.size(); ++i)
        if (lanes_[i].past == static_cast<int64_t>(ids_[i].size()))
          ids_[i].push_back(BestToken(rows[i]));
    }
    return ours_;
  }

 private:
  static constexpr size_t kChunk = 16;

  // The rows of this step are the last ones of all sums.
  void KeepOurSums(const std::vector<PlannedSequence>& step,
                   const std::vector<std::string>& sums) {
    const size_t row_bytes = group_.config().hidden_size * sizeof(float);
    size_t before = 0;
    size_t total = 0;
    for (size_t i = 0; i < step.size(); ++i) {
      if (i < kOurs) before += step[i].token_ids.size();
      total += step[i].token_ids.size();
    }
    for (size_t i = 0; i < sums.size(); ++i)
      ours_.sums[i] +=
          sums[i].substr(sums[i].size() - (total - before) * row_bytes,
                         step[kOurs].token_ids.size() * row_bytes);
  }

  TpGroup& group_;
  std::vector<Lane> lanes_;
  std::vector<std::vector<int32_t>> ids_;
  Trace ours_;
};

TEST_P(TensorParallel, SevenNeighboursChangeNoLogits) {
  std::vector<std::vector<int32_t>> prompts;
  for (int64_t i = 0; i < kSequences; ++i)
    prompts.push_back(Prompt(1 + 31 * i, i));
  prompts[Crowd::kOurs] = Prompt(70);
  for (const int tp_size : {1, largest()}) {
    auto group = MakeGroup(model(), tp_size, FmaKernels(), kSequences);
    ExpectSameTrace(Crowd(*group, prompts).Run(),
                    TraceOf(*group, prompts[Crowd::kOurs], 512),
                    "TP " + std::to_string(tp_size));
  }
}

// Ids and log-probabilities as clients get them, through the real scheduler.
TEST_P(TensorParallel, AnswersAreTheSameAloneAndBesideOthersAtEverySize) {
  const auto request = [&](int i) {
    Request request;
    request.id = "request-" + std::to_string(i);
    request.prompt_ids = Prompt(9 + 20 * i, i);
    request.sampling = {.temperature = i % 2 == 0 ? 0.0f : 0.8f,
                        .top_p = 0.9f,
                        .seed = 42u + static_cast<uint64_t>(i)};
    request.max_tokens = 12;
    request.logprobs = true;
    request.top_n = 3;
    request.priority = kNormalPriority;
    return request;
  };
  std::vector<Request> all;
  for (int i = 0; i < kSequences; ++i) all.push_back(request(i));
  std::vector<std::vector<Token>> expected;
  {
    auto group = MakeGroup(model(), 1, FmaKernels(), kSequences);
    for (const Request& one : all) {
      auto alone = Generate(*group, LimitsFor(*group, 1, 512), {one});
      ASSERT_OK(alone);
      expected.push_back((*alone)[0]);
    }
  }
  for (const int tp_size : model().tp_sizes) {
    auto group = MakeGroup(model(), tp_size, FmaKernels(), kSequences);
    auto beside = Generate(*group, LimitsFor(*group, kSequences, 16), all);
    ASSERT_OK(beside);
    EXPECT_EQ(*beside, expected) << "TP " << tp_size;
  }
}

// --- What a sequence finds -------------------------------------------------

TEST_P(TensorParallel, TracesOfAnEarlierSequenceChangeNoLogits) {
  auto group = MakeGroup(model(), 2, FmaKernels());
  const Trace fresh = TraceOf(*group, Prompt(40), 512);
  TraceOf(*group, Prompt(300, 7), 512);
  ExpectSameTrace(TraceOf(*group, Prompt(40), 512), fresh,
                  "after a longer one");
}

TEST_P(TensorParallel, TheOrderOfBlocksAndTheSlotChangeNoLogits) {
  auto group = MakeGroup(model(), 1, FmaKernels(), 2);
  const Trace fresh = TraceOf(*group, Prompt(200), 64);
  Lane lane = LaneOf(1);
  lane.blocks = {8, 2, 9, 0, 5};
  ExpectSameTrace(TraceOf(*group, lane, Prompt(200), 64), fresh,
                  "slot 1 and blocks in any order");
}

INSTANTIATE_TEST_SUITE_P(Models, TensorParallel, testing::ValuesIn(kModels),
                         [](const auto& info) {
                           return std::string(info.param.name) == "phalanx-mini"
                                      ? "mini"
                                      : std::string(info.param.name);
                         });

// --- What a size admits ----------------------------------------------------

TEST(TensorParallelSizes, NameTheFieldThatDoesNotDivide) {
  const struct {
    const char* model;
    int tp_size;
    const char* message;
  } cases[] = {
      {"moe", 3, "num_attention_heads=8 is not divisible by tp_size=3"},
      {"moe", 5, "num_attention_heads=8 is not divisible by tp_size=5"},
      {"moe", 16, "num_attention_heads=8 is not divisible by tp_size=16"},
      {"moe_text", 4, "num_attention_heads=6 is not divisible by tp_size=4"},
      {"moe_text", 3, "linear_num_key_heads=2 is not divisible by tp_size=3"},
      {"moe_text", 6, "linear_num_key_heads=2 is not divisible by tp_size=6"},
      {"dense", 8, "num_attention_heads=4 is not divisible by tp_size=8"},
  };
  for (const auto& c : cases) {
    const auto config =
        LoadModelConfig(std::string(GOLDEN_DIR) + "/models/" + c.model);
    ASSERT_OK(config);
    EXPECT_THAT(MakeLocalShape(*config, 0, c.tp_size),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         testing::HasSubstr(c.message)));
  }
}

// --- What a rank holds -----------------------------------------------------

// model_spec.md 4.2 and 5.1, for bf16 checkpoints. A_log and the gated norm may
// be F32: `parameter_bytes` is what one of theirs takes.
struct Share {
  int64_t experts = 0;
  int64_t non_experts = 0;
  int64_t kv_block = 0;
  int64_t state_slot = 0;
};

Share ShareOf(const ModelConfig& c, int64_t rank, int64_t N,
              int64_t parameter_bytes) {
  const int64_t H = c.hidden_size;
  const int64_t D = c.head_dim;
  const int64_t nq = c.num_attention_heads / N;
  const int64_t nkv = std::max<int64_t>(1, c.num_key_value_heads / N);
  const int64_t keys =
      c.linear_num_key_heads / N * c.linear_key_head_dim;  // Channels.
  const int64_t nv = c.linear_num_value_heads / N;
  const int64_t values = nv * c.linear_value_head_dim;
  const int64_t W = c.linear_conv_kernel_dim;
  const int64_t I = c.moe_intermediate_size / N;
  const int64_t Is = c.shared_expert_intermediate_size / N;
  const int64_t mlp = c.intermediate_size / N;
  const int64_t rows = CeilDivide(c.vocab_size, N);
  const int64_t owned =
      std::clamp<int64_t>(c.vocab_size - rank * rows, 0, rows);

  Share share;
  int64_t elements = (c.tie_word_embeddings ? 1 : 2) * owned * H + H;
  int64_t parameters = 0;
  for (const LayerKind kind : c.layer_types) {
    elements += 2 * H;  // Norms.
    // Router and shared gate.
    if (c.has_experts()) elements += (c.num_experts + 1) * H;
    elements += 3 * Is * H;   // Shared expert.
    elements += 3 * mlp * H;  // Of a dense model.
    share.experts += c.num_experts * 3 * I * H * 2;
    if (kind == LayerKind::kFullAttention) {
      elements += (2 * nq + 2 * nkv) * D * H + H * nq * D + 2 * D;
      share.kv_block += 2 * nkv * kKvBlockTokens * D * 2;
    } else {
      elements += (2 * keys + 2 * values + 2 * nv) * H;  // q|k|v, z, b, a.
      elements += (2 * keys + values) * W + nv + H * values;
      parameters += nv + c.linear_value_head_dim;
      share.state_slot +=
          nv * c.linear_key_head_dim * c.linear_value_head_dim * 4 +
          (2 * keys + values) * (W - 1) * 2;
    }
  }
  share.non_experts = elements * 2 + parameters * parameter_bytes;
  return share;
}

TEST(TensorParallelShare, EveryRankHoldsItsShareAndNoMore) {
  for (const Model& model : kModels) {
    for (const int tp_size : model.tp_sizes) {
      auto group = MakeGroup(model, tp_size, FmaKernels());
      for (int r = 0; r < tp_size; ++r) {
        SCOPED_TRACE(std::string(model.name) + " rank " + std::to_string(r) +
                     " of " + std::to_string(tp_size));
        const TpGroup::Rank& rank = group->rank(r);
        const Share share =
            ShareOf(group->config(), r, tp_size, model.parameter_bytes);
        EXPECT_EQ(rank.weights.expert_bytes, share.experts);
        EXPECT_EQ(rank.weights.non_expert_bytes, share.non_experts);
        EXPECT_EQ(rank.runner->kv_cache().bytes(),
                  group->limits().kv_blocks * share.kv_block);
        EXPECT_EQ(rank.runner->state_cache().bytes(),
                  group->limits().state_slots * share.state_slot);
        // What is really held, but for padding to a page.
        const auto held = [&](MemoryComponent component) {
          return rank.backend->allocated_bytes(component);
        };
        EXPECT_LE(held(MemoryComponent::kKeysValues),
                  RoundUp(rank.runner->kv_cache().bytes(), 4096));
        EXPECT_LE(held(MemoryComponent::kStates),
                  RoundUp(rank.runner->state_cache().bytes(), 4096));
      }
    }
  }
}

}  // namespace
}  // namespace phalanx
