#include "gateway/cli/bench_workload.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "absl/strings/str_cat.h"

namespace phalanx {
namespace {

// What random numbers are for; a request's are its own index.
constexpr uint64_t kArrivalStream = ~uint64_t{0};
constexpr uint64_t kPrefixStream = ~uint64_t{1};

constexpr const char* kWords[] = {
    "the",  "city",  "of",    "water", "has",  "a",    "long", "name",
    "and",  "every", "road",  "from",  "it",   "goes", "to",   "one",
    "old",  "house", "where", "two",   "red",  "dogs", "sit",  "by",
    "some", "green", "trees", "while", "rain", "is",   "near", "again"};

// The finaliser of SplitMix64 (Steele, Lea, Flood 2014).
uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

int64_t LogNormal(BenchRandom& random, double median, double sigma) {
  return std::llround(median * std::exp(sigma * random.Normal()));
}

void AddTokens(BenchRandom& random, const WorkloadConfig& config, int64_t count,
               BenchRequest& request) {
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t bits = random.Bits();
    if (config.text)
      absl::StrAppend(&request.text, request.text.empty() ? "" : " ",
                      kWords[bits % std::size(kWords)]);
    else
      request.prompt_ids.push_back(static_cast<int32_t>(
          bits % static_cast<uint64_t>(config.vocab_size)));
  }
}

}  // namespace

BenchRandom::BenchRandom(uint64_t seed, uint64_t stream)
    : state_(Mix(seed + 0x9e3779b97f4a7c15) ^ Mix(~stream)) {}

uint64_t BenchRandom::Bits() { return Mix(state_ += 0x9e3779b97f4a7c15); }

double BenchRandom::Uniform() {
  return static_cast<double>(Bits() >> 11) * 0x1p-53;
}

// Box and Muller 1958; one of the pair, for the order to stay plain.
double BenchRandom::Normal() {
  const double radius = std::sqrt(-2 * std::log(1 - Uniform()));
  return radius * std::cos(2 * std::numbers::pi * Uniform());
}

absl::StatusOr<BenchWorkload> BenchWorkload::Create(
    const WorkloadConfig& config) {
  const int64_t needed = config.shared_prefix_tokens +
                         config.prompt_tokens.value_or(1) +
                         config.output_tokens.value_or(1);
  if (needed > config.max_model_len)
    return absl::InvalidArgumentError(absl::StrCat(
        "shared prefix, prompt and output are ", needed,
        " tokens; they must be at most the model's max_model_len, ",
        config.max_model_len));
  return BenchWorkload(config);
}

int64_t BenchWorkload::PromptTokens(BenchRandom& random) const {
  const int64_t drawn = LogNormal(random, kPromptMedianTokens, kPromptSigma);
  if (config_.prompt_tokens) return *config_.prompt_tokens;
  const int64_t room = config_.max_model_len - config_.shared_prefix_tokens -
                       config_.output_tokens.value_or(0);
  const int64_t most = config_.output_tokens ? room : room / 2;
  return std::clamp<int64_t>(drawn, std::min(kLeastDrawnTokens, most),
                             std::max<int64_t>(most, 1));
}

int64_t BenchWorkload::OutputTokens(BenchRandom& random,
                                    int64_t prompt_tokens) const {
  const int64_t drawn = LogNormal(random, kOutputMedianTokens, kOutputSigma);
  if (config_.output_tokens) return *config_.output_tokens;
  const int64_t most =
      config_.max_model_len - config_.shared_prefix_tokens - prompt_tokens;
  return std::clamp<int64_t>(drawn, std::min(kLeastDrawnTokens, most), most);
}

BenchRequest BenchWorkload::Request(int64_t index) const {
  BenchRandom random(config_.seed, static_cast<uint64_t>(index));
  BenchRequest request;
  request.sampling_seed = random.Bits();
  const bool cancelled = random.Uniform() < config_.cancel_share;
  const double share_of_answer = random.Uniform();
  const int64_t prompt_tokens = PromptTokens(random);
  request.output_tokens = OutputTokens(random, prompt_tokens);
  if (cancelled)
    request.cancel_after_tokens = static_cast<int64_t>(
        share_of_answer * static_cast<double>(request.output_tokens));
  BenchRandom prefix(config_.seed, kPrefixStream);
  AddTokens(prefix, config_, config_.shared_prefix_tokens, request);
  AddTokens(random, config_, prompt_tokens, request);
  return request;
}

ArrivalTimes::ArrivalTimes(uint64_t seed, double rate)
    : rate_(rate), random_(seed, kArrivalStream) {}

double ArrivalTimes::Next() {
  return seconds_ += -std::log(1 - random_.Uniform()) / rate_;
}

}  // namespace phalanx
