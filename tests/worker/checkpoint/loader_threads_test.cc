// Loading on several threads: the same bytes, and no more memory than said.

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/checkpoint/checkpoint_files.h"
#include "tests/worker/checkpoint/synthetic_checkpoint.h"
#include "worker/checkpoint/loader.h"

namespace phalanx {
namespace {

std::string BytesOf(const PackedWeight& weight) {
  return {static_cast<const char*>(weight.storage.data()),
          static_cast<size_t>(weight.storage.bytes())};
}

// Everything that a rank holds, as the backend laid it out.
std::vector<std::string> BytesOf(const Weights& weights) {
  std::vector<std::string> bytes = {BytesOf(weights.lm_head)};
  for (const Buffer& buffer : weights.storage)
    bytes.emplace_back(static_cast<const char*>(buffer.data()),
                       static_cast<size_t>(buffer.bytes()));
  for (const LayerWeights& layer : weights.layers) {
    if (const auto* gdn = std::get_if<GdnWeights>(&layer.mixer)) {
      bytes.push_back(BytesOf(gdn->in_proj));
      bytes.push_back(BytesOf(gdn->ba_proj));
      bytes.push_back(BytesOf(gdn->out_proj));
    } else {
      const auto& attention = std::get<AttentionWeights>(layer.mixer);
      bytes.push_back(BytesOf(attention.qgkv));
      bytes.push_back(BytesOf(attention.o));
    }
    const auto& moe = std::get<MoeWeights>(layer.feed_forward);
    for (const PackedWeight* weight :
         {&moe.router, &moe.experts_gate_up, &moe.experts_down,
          &moe.shared_gate_up, &moe.shared_down, &moe.shared_gate})
      bytes.push_back(BytesOf(*weight));
  }
  return bytes;
}

// A model folder and a backend to load it into.
class Loading {
 public:
  explicit Loading(const std::string& folder, int rank = 0, int tp_size = 1)
      : config_(LoadModelConfig(folder)),
        shape_(MakeLocalShape(*config_, rank, tp_size)),
        checkpoint_(Checkpoint::Open(folder)),
        backend_(CreateCpuBackend({})) {}

  absl::StatusOr<Weights> Load(const LoadJobs::RunOptions& run) {
    return LoadWeights(*checkpoint_, *config_, *shape_, **backend_,
                       {.run = run});
  }

  int64_t allocated_bytes() const {
    int64_t bytes = 0;
    for (int i = 0; i < kMemoryComponents; ++i)
      bytes += (*backend_)->allocated_bytes(static_cast<MemoryComponent>(i));
    return bytes;
  }

  // In bf16, of what LoadPacked puts together.
  int64_t largest_matrix_bytes(const Weights& weights) const {
    int64_t largest = weights.lm_head.share_bytes();
    for (const LayerWeights& layer : weights.layers)
      if (const auto* gdn = std::get_if<GdnWeights>(&layer.mixer))
        largest = std::max(largest, gdn->in_proj.share_bytes());
    return largest;
  }

 private:
  absl::StatusOr<ModelConfig> config_;
  absl::StatusOr<LocalShape> shape_;
  absl::StatusOr<Checkpoint> checkpoint_;
  absl::StatusOr<std::unique_ptr<Backend>> backend_;
};

class LoadOnThreads : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Golden, LoadOnThreads,
                         testing::Values("moe", "moe_fp8", "next"));

TEST_P(LoadOnThreads, GivesTheBytesOfOne) {
  for (const int tp_size : {1, 2}) {
    Loading loading(absl::StrCat(GOLDEN_DIR, "/models/", GetParam()),
                    tp_size - 1, tp_size);
    const auto one = loading.Load({.threads = 1});
    ASSERT_OK(one);

    const auto four = loading.Load({.threads = 4});

    ASSERT_OK(four);
    EXPECT_TRUE(BytesOf(*four) == BytesOf(*one)) << tp_size;
    EXPECT_EQ(four->expert_bytes, one->expert_bytes);
  }
}

// Progress is of the matrices and the embedding; vectors are too few to count.
TEST_P(LoadOnThreads, TellsOfAllBytesButThoseOfVectors) {
  Loading loading(absl::StrCat(GOLDEN_DIR, "/models/", GetParam()));
  LoadProgress last;

  const auto weights = loading.Load(
      {.threads = 4, .on_progress = [&](const auto& now) { last = now; }});

  ASSERT_OK(weights);
  const int64_t held = weights->expert_bytes + weights->non_expert_bytes;
  EXPECT_EQ(last.done_bytes, last.total_bytes);
  EXPECT_LE(last.total_bytes, held);
  EXPECT_GT(last.total_bytes, held * 95 / 100);
}

TEST(LoadWeights, IsCancelledByStop) {
  Loading loading(GOLDEN_DIR "/models/moe");
  const std::atomic<bool> stop{true};

  EXPECT_THAT(loading.Load({.threads = 2, .stop = &stop}),
              StatusIs(absl::StatusCode::kCancelled, testing::_));
}

// RssAnon + RssShmem of this process: what it holds besides mapped files.
int64_t HeldBytes() {
  std::ifstream status("/proc/self/status");
  int64_t bytes = 0;
  std::string word;
  while (status >> word) {
    int64_t kib = 0;
    if (word == "RssAnon:" || word == "RssShmem:") status >> kib;
    bytes += kib << 10;
  }
  return bytes;
}

// FP8, where every matrix goes through a temporary; 240 MiB of experts and a
// largest matrix of 48.
class LoadMemory : public testing::Test {
 protected:
  // Stacks and arenas of threads, the list of jobs.
  static constexpr int64_t kSlackBytes = 6 << 20;
  static constexpr int kThreads = 2;

  void SetUp() override {
    WriteSyntheticCheckpoint(
        folder_.path(),
        {.layers = 1, .experts = 40, .vocab_size = 2048, .fp8 = true});
    Loading loading(folder_.path());
    const int64_t before = HeldBytes();
    const auto weights = loading.Load(
        {.threads = kThreads, .on_progress = [&](const LoadProgress&) {
           peak_ = std::max(peak_, HeldBytes() - before);
         }});
    ASSERT_OK(weights);
    after_ = HeldBytes() - before;
    planned_ = loading.allocated_bytes();
    temporary_ = loading.largest_matrix_bytes(*weights);
  }

  TempFolder folder_;
  int64_t peak_ = 0;
  int64_t after_ = 0;
  int64_t planned_ = 0;
  int64_t temporary_ = 0;
};

TEST_F(LoadMemory, IsNeverAboveThePlanAndATemporaryOfEachThread) {
  EXPECT_LE(peak_, planned_ + kThreads * temporary_ + kSlackBytes);
}

TEST_F(LoadMemory, IsThePlanWhenAllIsLoaded) {
  EXPECT_LE(after_, planned_ + kSlackBytes);
  EXPECT_GE(after_, planned_ - kSlackBytes);
}

}  // namespace
}  // namespace phalanx
