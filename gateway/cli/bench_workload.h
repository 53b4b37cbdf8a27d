#ifndef PHALANX_GATEWAY_CLI_BENCH_WORKLOAD_H_
#define PHALANX_GATEWAY_CLI_BENCH_WORKLOAD_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace phalanx {

// Lengths as in logs of conversations: log-normal, exp(N(ln median, sigma)).
// Those of ShareGPT are near these: means of about 220 and 200 tokens, and a
// long tail.
inline constexpr double kPromptMedianTokens = 100;
inline constexpr double kPromptSigma = 1.25;
inline constexpr double kOutputMedianTokens = 130;
inline constexpr double kOutputSigma = 0.95;
inline constexpr int64_t kLeastDrawnTokens = 4;

// Random numbers as a pure function of a seed, of what they are for and of
// their order: the same on every machine, whatever runs beside.
class BenchRandom {
 public:
  BenchRandom(uint64_t seed, uint64_t stream);

  uint64_t Bits();
  double Uniform();  // In [0, 1).
  double Normal();   // Mean 0, variance 1.

 private:
  uint64_t state_;
};

// What the requests of a run look like, and what the model allows.
struct WorkloadConfig {
  uint64_t seed = 0;
  std::optional<int64_t> prompt_tokens;  // Unset: drawn.
  std::optional<int64_t> output_tokens;  // Unset: drawn.
  // Before each prompt, the same for all of them, and beside its length.
  int64_t shared_prefix_tokens = 0;
  bool text = false;  // Words instead of ids, as many as there were tokens.
  double cancel_share = 0;  // Of the requests, in [0, 1].
  int64_t max_model_len = 0;
  int64_t vocab_size = 0;
};

struct BenchRequest {
  std::vector<int32_t> prompt_ids;  // Empty where there is text.
  std::string text;
  int64_t output_tokens = 0;
  uint64_t sampling_seed = 0;
  // Cancelled once so many tokens have come, fewer than output_tokens.
  std::optional<int64_t> cancel_after_tokens;
};

// The requests of a run, each a pure function of the seed and its index.
class BenchWorkload {
 public:
  // INVALID_ARGUMENT, with the limit, if the lengths that are fixed do not fit
  // the model.
  static absl::StatusOr<BenchWorkload> Create(const WorkloadConfig& config);

  // Lengths that are drawn are clipped so that prefix, prompt and output fit
  // max_model_len, the prompt first, to half of what the prefix leaves.
  BenchRequest Request(int64_t index) const;

 private:
  explicit BenchWorkload(const WorkloadConfig& config) : config_(config) {}

  int64_t PromptTokens(BenchRandom& random) const;
  int64_t OutputTokens(BenchRandom& random, int64_t prompt_tokens) const;

  const WorkloadConfig config_;
};

// When the requests of an open loop are due: a Poisson process.
class ArrivalTimes {
 public:
  // `rate` > 0 requests per second.
  ArrivalTimes(uint64_t seed, double rate);

  // Seconds from the start of the run to the next request.
  double Next();

 private:
  const double rate_;
  BenchRandom random_;
  double seconds_ = 0;
};

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_CLI_BENCH_WORKLOAD_H_
