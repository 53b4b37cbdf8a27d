#ifndef PHALANX_GATEWAY_CLI_BENCH_RECORD_H_
#define PHALANX_GATEWAY_CLI_BENCH_RECORD_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace phalanx {

// What the client saw of one request. Times are of one clock, in seconds.
struct BenchSample {
  enum class End {
    kOk,
    kFailed,
    kCancelled,    // As it was meant to be.
    kInterrupted,  // With the whole run.
  };

  // When the request should have been sent: an open loop's may have waited for
  // its turn, and that is part of what its user waits.
  double due_seconds = 0;
  double first_token_seconds = 0;  // Arrival of the first token,
  double last_token_seconds = 0;   // of the last,
  double end_seconds = 0;          // and of the stream's end.
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t output_tokens = 0;
  int64_t resumes = 0;
  int64_t preemptions = 0;
  // Between one token and the next, one fewer than tokens. The tokens of one
  // message come together: 0 after its first.
  std::vector<float> gaps_seconds;
  End end = End::kOk;
  std::string error;  // "UNAVAILABLE/GROUP_LOST", of a failed one.
  std::string error_message;
};

// Of a list of numbers. A percentile is the least of them that at least so many
// per cent do not exceed (nearest rank); all are 0 where there are none.
struct Distribution {
  int64_t count = 0;
  double mean = 0;
  double p50 = 0;
  double p90 = 0;
  double p95 = 0;
  double p99 = 0;
  double max = 0;

  bool operator==(const Distribution&) const = default;
};

Distribution DistributionOf(std::vector<double> values);

// What a request must keep to count as good; unset: anything.
struct Slo {
  std::optional<double> ttft_seconds;
  std::optional<double> itl_seconds;  // Mean time between its tokens.

  bool any() const { return ttft_seconds.has_value() || itl_seconds; }
};

// What a run came to.
struct BenchResult {
  int64_t ok = 0;
  int64_t failed = 0;
  int64_t cancelled = 0;
  int64_t interrupted = 0;
  std::map<std::string, int64_t> errors;        // Of the failed ones, by what.
  std::map<std::string, std::string> messages;  // The first of each.
  // From the first request's due time to the last end.
  double seconds = 0;
  // Of all requests, whatever their end.
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t output_tokens = 0;
  int64_t resumes = 0;
  int64_t preemptions = 0;
  // Of those that ended well; from their due time.
  Distribution ttft_seconds;
  Distribution inter_token_seconds;
  Distribution time_per_output_token_seconds;  // Of two tokens or more.
  Distribution end_to_end_seconds;
  int64_t good = 0;  // That ended well, within the SLO.

  int64_t ended() const { return ok + failed; }
  double PerSecond(int64_t count) const {
    return seconds > 0 ? static_cast<double>(count) / seconds : 0;
  }
};

// Gathers samples, 4 bytes a token. One thread at a time.
class BenchRecord {
 public:
  void Add(BenchSample sample);

  BenchResult Result(const Slo& slo) const;

 private:
  std::vector<BenchSample> samples_;
};

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_CLI_BENCH_RECORD_H_
