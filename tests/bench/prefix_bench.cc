// What a prefix cache costs: prefix_bench [--check]. The look-up of an
// 8,000-token prompt among some thousand blocks, and the copies of one hit,
// beside memcpy of as many bytes in the same run. --check exits with 1 where a
// look-up takes more than the issue allows.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/check.h"
#include "common/units.h"
#include "kernels/cpu/cpu_backend.h"
#include "worker/cache/kv_cache.h"
#include "worker/cache/prefix_cache.h"
#include "worker/cache/state_cache.h"

namespace phalanx {
namespace {

constexpr double kMostMicroseconds = 100;
constexpr int64_t kPromptTokens = 8000;
constexpr int64_t kSharedTokens = 2000;  // Of all conversations.
constexpr int kConversations = 40;
constexpr int64_t kAnchorTokens = 2048;
constexpr int kRounds = 50;
constexpr int kCopies = 41;

double Microseconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  const std::chrono::duration<double, std::micro> taken =
      std::chrono::steady_clock::now() - start;
  return taken.count();
}

double At(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(part * (values.size() - 1))];
}

// --- Look-ups --------------------------------------------------------------

std::vector<int32_t> Prompt(int conversation) {
  std::vector<int32_t> ids(kPromptTokens);
  for (int64_t i = 0; i < kPromptTokens; ++i)
    ids[i] = static_cast<int32_t>(
        (i * 7919 + (i < kSharedTokens ? 0 : conversation * 104729)) % 248320);
  return ids;
}

// Prompts whose anchors, and all but whose last tokens, are kept.
std::unique_ptr<PrefixCache> Fill(
    const std::vector<std::vector<int32_t>>& prompts) {
  auto cache = std::make_unique<PrefixCache>(PrefixCache::Limits{
      .kv_blocks = 8192, .state_slots = 512, .block_tokens = 64});
  for (const std::vector<int32_t>& prompt : prompts) {
    const auto blocks = cache->AllocateBlocks(CeilDivide(kPromptTokens, 64));
    for (int64_t end = kAnchorTokens; end <= kPromptTokens;
         end += kAnchorTokens)
      cache->Insert("", std::span(prompt).first(end),
                    std::span(*blocks).first(CeilDivide(end, 64)),
                    cache->ReserveSnapshot().value());
    cache->Insert("", std::span(prompt).first(kPromptTokens - 10), *blocks,
                  cache->ReserveSnapshot().value());
    cache->ReleaseBlocks(*blocks);
  }
  return cache;
}

// Prints and returns the median.
double Report(const char* what, const std::vector<double>& microseconds) {
  std::printf("%-44s median %7.2f us, p99 %7.2f us\n", what,
              At(microseconds, 0.5), At(microseconds, 0.99));
  return At(microseconds, 0.5);
}

bool MeasureLookUps() {
  std::vector<std::vector<int32_t>> prompts;
  for (int i = 0; i < kConversations; ++i) prompts.push_back(Prompt(i));
  const auto cache = Fill(prompts);
  const PrefixCache::Counts counts = cache->counts();
  std::printf("prompts of %lld tokens, %lld blocks and %lld snapshots kept\n",
              static_cast<long long>(kPromptTokens),
              static_cast<long long>(counts.blocks_reusable),
              static_cast<long long>(counts.slots_snapshot));
  std::vector<double> longest, take, release, other_salt;
  for (int round = 0; round < kRounds; ++round) {
    for (const std::vector<int32_t>& prompt : prompts) {
      PrefixCache::Prefix prefix;
      longest.push_back(Microseconds([&] {
        CHECK(cache->Longest("", prompt, kPromptTokens - 1) ==
              kPromptTokens - 10);
      }));
      take.push_back(Microseconds(
          [&] { prefix = cache->Take("", prompt, kPromptTokens - 1); }));
      CHECK(prefix.tokens == kPromptTokens - 10);
      release.push_back(
          Microseconds([&] { cache->ReleaseBlocks(prefix.blocks); }));
      other_salt.push_back(Microseconds(
          [&] { CHECK(cache->Longest("b", prompt, kPromptTokens) == 0); }));
    }
  }
  double slowest = Report("Longest", longest);
  slowest = std::max(slowest, Report("Take", take));
  Report("ReleaseBlocks", release);
  Report("Longest, nothing kept under the salt", other_salt);
  return slowest <= kMostMicroseconds;
}

// --- Copies ----------------------------------------------------------------

// Both in turns; the destination alternates, as slots do.
void MeasureCopy(const char* what, int64_t bytes,
                 const std::function<void(int turn)>& copy) {
  std::vector<char> from(bytes, 1), to(2 * bytes, 1);
  std::vector<double> ours, plain;
  for (int i = 0; i < kCopies; ++i) {
    ours.push_back(Microseconds([&] { copy(i % 2); }));
    plain.push_back(Microseconds(
        [&] { std::memcpy(to.data() + i % 2 * bytes, from.data(), bytes); }));
  }
  std::printf("%-44s %9.1f KiB %9.1f us, memcpy %9.1f us: %.2f of it\n", what,
              static_cast<double>(bytes) / kKiB, At(ours, 0.5), At(plain, 0.5),
              At(plain, 0.5) / At(ours, 0.5));
}

struct Model {
  const char* name;
  StateCacheShape state;
  KvCacheShape kv;
};

constexpr Model kModels[] = {
    {"phalanx-mini",
     {.layers = 6,
      .value_heads = 16,
      .value_dim = 16,
      .key_dim = 16,
      .conv_channels = 512,
      .conv_width = 4,
      .slots = 97},
     {.layers = 2, .kv_heads = 2, .head_dim = 32, .blocks = 512}},
    {"35B, TP 1",
     {.layers = 30,
      .value_heads = 32,
      .value_dim = 128,
      .key_dim = 128,
      .conv_channels = 8192,
      .conv_width = 4,
      .slots = 4},
     {.layers = 10, .kv_heads = 2, .head_dim = 256, .blocks = 64}}};

void MeasureCopies(int threads) {
  CpuBackendConfig config;
  config.threads = threads;
  auto backend = CreateCpuBackend(config);
  CHECK(backend.ok());
  Ops& ops = (*backend)->ops();
  for (const Model& model : kModels) {
    const auto states = StateCache::Create(**backend, model.state);
    const auto blocks = KvCache::Create(**backend, model.kv);
    CHECK(states.ok() && blocks.ok());
    const std::string where =
        std::string(model.name) + ", " + std::to_string(threads) + " threads: ";
    MeasureCopy((where + "a state").c_str(),
                model.state.slot_bytes(DType::kBf16),
                [&](int turn) { (*states)->Copy(ops, 0, 1 + turn); });
    MeasureCopy((where + "a block").c_str(), model.kv.block_bytes(DType::kBf16),
                [&](int turn) { (*blocks)->Copy(ops, 0, 1 + turn); });
  }
}

}  // namespace
}  // namespace phalanx

int main(int argc, char** argv) {
  const bool fast = phalanx::MeasureLookUps();
  for (const int threads : {1, 2}) phalanx::MeasureCopies(threads);
  const bool check = argc > 1 && std::strcmp(argv[1], "--check") == 0;
  return check && !fast ? 1 : 0;
}
