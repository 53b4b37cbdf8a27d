// A model larger than memory, as far as experts go: what the expert cache
// fetches from a pack file that is not in memory, beside what the disk gives
// in the same round and beside what `phalanx plan` predicts:
//   offload_bench MODEL_FOLDER PACK_FOLDER [WEIGHTS [SLOTS]]
// One token at a time, its experts drawn evenly; nothing is computed, so the
// tokens/s are the bound that reading sets. Before each token the file's pages
// are dropped, as if memory had none to spare. The pack file stays.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "common/check.h"
#include "common/units.h"
#include "kernels/cpu/cpu_backend.h"
#include "worker/checkpoint/digest.h"
#include "worker/experts/expert_cache.h"
#include "worker/experts/packed_bank.h"
#include "worker/plan/memory_plan.h"

namespace phalanx {
namespace {

constexpr int kRounds = 5;
constexpr int kTokens = 12;
constexpr int kThreads = 2;
constexpr int64_t kDiskBytes = int64_t{512} << 20;
constexpr size_t kDirectAlignment = 4096;

struct Setup {
  ModelConfig config;
  LocalShape shape;
  Backend& backend;
  const Checkpoint& checkpoint;
  PackedBankConfig bank;
  int64_t slots;
};

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

std::unique_ptr<PackedBank> OpenBank(const Setup& setup) {
  auto bank = PackedBank::Create(setup.checkpoint, setup.config, setup.shape,
                                 setup.backend, setup.bank);
  if (!bank.ok()) {
    std::fprintf(stderr, "%s\n", std::string(bank.status().message()).c_str());
    std::exit(1);
  }
  return *std::move(bank);
}

// Only pages that nobody has mapped go.
void DropFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  CHECK(fd >= 0);
  CHECK(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0);
  close(fd);
}

// What the disk gives to as many threads in runs of an expert, anywhere in the
// file, past the page cache.
double DiskGbps(const std::string& path, int64_t file_bytes,
                int64_t expert_bytes, uint32_t seed) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
  CHECK(fd >= 0);
  const int64_t run = RoundUp(expert_bytes, int64_t{kDirectAlignment});
  std::vector<int64_t> places(static_cast<size_t>(file_bytes / run));
  std::iota(places.begin(), places.end(), 0);
  std::shuffle(places.begin(), places.end(), std::mt19937(seed));
  const int64_t reads = std::min<int64_t>(kDiskBytes / run, std::ssize(places));
  std::atomic<int64_t> next{0};
  const auto read_some = [&] {
    void* buffer =
        std::aligned_alloc(kDirectAlignment, static_cast<size_t>(run));
    std::memset(buffer, 0, static_cast<size_t>(run));
    for (int64_t i = next++; i < reads; i = next++)
      CHECK(pread(fd, buffer, static_cast<size_t>(run),
                  places[static_cast<size_t>(i)] * run) > 0);
    std::free(buffer);
  };
  const auto start = std::chrono::steady_clock::now();
  std::thread other(read_some);
  read_some();
  other.join();
  const double seconds = SecondsSince(start);
  close(fd);
  return static_cast<double>(reads * run) / seconds / 1e9;
}

// A pack file whose pages can be made to go: they do once nobody has them
// mapped. Not while a fetch runs.
class ColdBank final : public ExpertBank {
 public:
  explicit ColdBank(const Setup& setup) : setup_(setup) { Drop(); }

  void Drop() {
    if (bank_ == nullptr) bank_ = OpenBank(setup_);
    const std::string path = bank_->path();
    bank_.reset();
    DropFile(path);
    bank_ = OpenBank(setup_);
  }

  void Fetch(int layer, int expert, int64_t slot,
             ExpertSlots& slots) const override {
    bank_->Fetch(layer, expert, slot, slots);
  }
  void WillNeed(int layer, int expert) const override {
    bank_->WillNeed(layer, expert);
  }
  int64_t expert_bytes() const override { return bank_->expert_bytes(); }
  int64_t bytes() const override { return bank_->bytes(); }
  const std::string& path() const { return bank_->path(); }

 private:
  const Setup& setup_;
  std::unique_ptr<PackedBank> bank_;
};

// Tokens whose experts are drawn evenly, each layer by itself.
class UniformTokens {
 public:
  UniformTokens(const ModelConfig& config, uint32_t seed)
      : config_(config),
        random_(seed),
        experts_(static_cast<size_t>(config.num_experts)),
        offsets_(static_cast<size_t>(config.num_experts) + 1) {
    std::iota(experts_.begin(), experts_.end(), size_t{0});
  }

  void RunOne(ExpertCache& cache) {
    for (int layer = 0; layer < config_.num_layers(); ++layer) {
      Draw();
      Routing routing;
      routing.offsets =
          MakeTensor(offsets_.data(), DType::kI32, config_.num_experts + 1);
      cache.Begin(layer, routing);
      (void)cache.Wait(layer);
    }
  }

 private:
  void Draw() {
    std::fill(offsets_.begin(), offsets_.end(), 0);
    for (int64_t i = 0; i < config_.num_experts_per_tok; ++i) {
      const auto at = static_cast<size_t>(i);
      std::swap(experts_[at],
                experts_[at + random_() % (experts_.size() - at)]);
      offsets_[experts_[at] + 1] = 1;
    }
    std::partial_sum(offsets_.begin(), offsets_.end(), offsets_.begin());
  }

  const ModelConfig& config_;
  std::mt19937 random_;
  std::vector<size_t> experts_;
  std::vector<int32_t> offsets_;
};

struct Round {
  double disk_gbps;
  double fetch_gbps;
  double tokens_per_second;
  double bytes_per_token;
  double hit_ratio;
};

Round Measure(const Setup& setup, uint32_t seed) {
  ColdBank bank(setup);
  Round round = {};
  round.disk_gbps =
      DiskGbps(bank.path(), bank.bytes(), bank.expert_bytes(), seed);
  auto cache =
      ExpertCache::Create(setup.backend, setup.config, setup.shape, bank,
                          {.slots = setup.slots,
                           .fetch_threads = kThreads,
                           .format = setup.bank.format});
  CHECK(cache.ok());
  UniformTokens tokens(setup.config, seed);
  // Until the slots are full, and as long again.
  (*cache)->Count(false);
  const int64_t fill =
      CeilDivide(setup.slots,
                 setup.config.num_layers() * setup.config.num_experts_per_tok);
  for (int64_t i = 0; i < 2 * fill; ++i) tokens.RunOne(**cache);
  (*cache)->Count(true);
  double seconds = 0;
  for (int i = 0; i < kTokens; ++i) {
    bank.Drop();
    const auto start = std::chrono::steady_clock::now();
    tokens.RunOne(**cache);
    seconds += SecondsSince(start);
  }
  const ExpertCacheCounters counters = (*cache)->counters();
  round.fetch_gbps =
      static_cast<double>(counters.fetched_bytes) / seconds / 1e9;
  round.tokens_per_second = kTokens / seconds;
  round.bytes_per_token = counters.fetched_bytes_per_token();
  round.hit_ratio = counters.hit_ratio();
  return round;
}

// As `phalanx plan` says it, of this number of slots.
int64_t PlannedBytesPerToken(const Setup& setup) {
  PlanRequest request = {.moe_mode = MoeMode::kOffload,
                         .device_bytes = 1024 * kGiB,
                         .expert_slots = setup.slots};
  request.weights.format = HeldAs(setup.bank.format);
  const auto plan = PlanMemory(setup.config, request);
  CHECK(plan.ok());
  return plan->fetched_bytes_per_token;
}

int Run(int argc, char** argv) {
  if (argc < 3 || argc > 5) {
    std::fprintf(
        stderr,
        "usage: offload_bench MODEL_FOLDER PACK_FOLDER [WEIGHTS [SLOTS]]\n");
    return 1;
  }
  const std::string model = argv[1];
  const auto config = LoadModelConfig(model);
  auto checkpoint = Checkpoint::Open(model);
  const auto format = WeightFormatOf(argc > 3 ? argv[3] : "bf16");
  if (!config.ok() || !checkpoint.ok() || !format.has_value()) {
    std::fprintf(stderr, "no model in %s, or no such format\n", model.c_str());
    return 1;
  }
  auto backend = CreateCpuBackend({.threads = kThreads});
  CHECK(backend.ok());
  const int64_t all = config->num_layers() * config->num_experts;
  const Setup setup = {
      .config = *config,
      .shape = MakeLocalShape(*config, 0, 1).value(),
      .backend = **backend,
      .checkpoint = *checkpoint,
      .bank = {.dir = argv[2],
               .model_digest = ModelDigest(*checkpoint),
               .threads = kThreads,
               .format = *format},
      .slots = argc > 4 ? std::atoll(argv[4]) : config->num_experts};
  const auto start = std::chrono::steady_clock::now();
  const int64_t expert_bytes = OpenBank(setup)->expert_bytes();
  const auto predicted = static_cast<double>(PlannedBytesPerToken(setup));
  std::printf(
      "%s, expert %.2f MiB, %lld slots of %lld; pack file in %.1f s; plan: "
      "%.1f MB a token\n",
      WeightFormatName(*format), static_cast<double>(expert_bytes) / kMiB,
      static_cast<long long>(setup.slots), static_cast<long long>(all),
      SecondsSince(start), predicted / 1e6);
  for (uint32_t i = 1; i <= kRounds; ++i) {
    const Round round = Measure(setup, i);
    std::printf(
        "disk %.2f GB/s; fetched %.2f GB/s (%.2f of it); %.2f tokens/s, plan "
        "at that disk %.2f; %.1f MB a token; hits %.1f %%\n",
        round.disk_gbps, round.fetch_gbps, round.fetch_gbps / round.disk_gbps,
        round.tokens_per_second, round.disk_gbps * 1e9 / predicted,
        round.bytes_per_token / 1e6, 100 * round.hit_ratio);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace phalanx

int main(int argc, char** argv) { return phalanx::Run(argc, argv); }
