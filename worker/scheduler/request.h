#ifndef PHALANX_WORKER_SCHEDULER_REQUEST_H_
#define PHALANX_WORKER_SCHEDULER_REQUEST_H_

// What was asked of one sequence, in plain structs: worker.proto's
// WorkerGenerateRequest without protobuf.

#include <compare>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace phalanx {

// Bounds on the fields of a Request; ValidateRequest refuses what is outside.
inline constexpr int64_t kMaxRequestIdBytes = 256;
inline constexpr int64_t kMaxStopIds = 256;
inline constexpr int64_t kMaxAnchors = 256;
inline constexpr int64_t kMaxKeyBytes = 256;
inline constexpr int64_t kMaxBiasedIds = 1024;
// Of allowed_ids and of banned_ids, each.
inline constexpr int64_t kMaxMaskedIds = 65536;
inline constexpr float kMaxBias = 100;
inline constexpr int kMaxTopLogprobs = 20;
// Of inference.proto's Priority; 0, unspecified, counts as the normal one.
inline constexpr int kHighestPriority = 5;
inline constexpr int kNormalPriority = 3;

// How a token is drawn. The draw is a pure function of (seed, position,
// choice_index) and of the tokens before it. Order of operations:
//   1. log-probabilities that are reported are of the raw logits
//   2. repetition: each id that occurs in the last repetition_window tokens of
//      prompt and output: logit / repetition if it is > 0, else * repetition
//   3. frequency and presence: each id that occurs c > 0 times in the output:
//      logit - c * frequency - presence
//   4. logit_bias is added
//   5. masks to minus infinity: all but allowed_ids; banned_ids; stop ids
//      while fewer than min_tokens are generated
//   6. temperature, top_k, top_p, min_p, draw; at temperature 0 the largest
struct Sampling {
  float temperature = 0;  // >= 0; 0: the largest logit, nothing is drawn.
  float top_p = 1;        // In (0, 1]; 1: off.
  int32_t top_k = 0;      // 0: off.
  float min_p = 0;        // In [0, 1]; 0: off.
  uint64_t seed = 0;
  int32_t choice_index = 0;       // Which of n choices of one request.
  float presence = 0;             // In [-2, 2]; 0: off.
  float frequency = 0;            // In [-2, 2]; 0: off.
  float repetition = 1;           // In (0, 10]; 1: off.
  int32_t repetition_window = 0;  // Most recent tokens it looks at; 0: all.
  // Ascending ids, each once; finite values in [-kMaxBias, kMaxBias].
  std::vector<std::pair<int32_t, float>> logit_bias = {};
  std::vector<int32_t> allowed_ids = {};  // Ascending; empty: all.
  std::vector<int32_t> banned_ids = {};   // Ascending.

  // Whether logits must be changed before the draw, by what is set here.
  bool adjusts() const {
    return presence != 0 || frequency != 0 || repetition != 1 ||
           !logit_bias.empty() || !allowed_ids.empty() || !banned_ids.empty();
  }
};

// What of other requests' work a request may use.
struct CachePolicy {
  std::string salt = {};  // Only requests with the same one share a prefix.
  bool bypass = false;  // Neither takes from the prefix cache nor gives to it.
};

struct Request {
  std::string id;
  uint64_t epoch = 0;  // The one that the sender believes in.
  std::vector<int32_t> prompt_ids;
  // Sampled in an earlier epoch: replayed after the prompt, never drawn again
  // and never pushed again.
  std::vector<int32_t> emitted_ids;
  Sampling sampling;
  // Of emitted_ids and new ones together; 0 only with prompt_logprobs.
  int64_t max_tokens = 0;
  int64_t min_tokens = 0;         // Before that many, no stop id is drawn.
  std::vector<int32_t> stop_ids;  // Any of them ends the sequence.
  // Positions that begin a message, ascending, each in [1, prompt size]: a
  // prefill chunk ends there and the state is kept for others.
  std::vector<int32_t> anchors;
  CachePolicy cache;
  std::string key;        // Whose it is, for fairness; opaque, may be empty.
  bool logprobs = false;  // Log-probability of each token.
  int top_n = 0;          // Most likely ones listed with each token.
  // Log-probability of each prompt token but the first, pushed before tokens.
  bool prompt_logprobs = false;
  int priority = 0;  // 0..kHighestPriority.
  // Seconds from its Submit; the first ends it with an error, the second with
  // what it has.
  double timeout_seconds = std::numeric_limits<double>::infinity();
  double max_time_seconds = std::numeric_limits<double>::infinity();
  // It was in a step that killed its group: it runs alone until it has made a
  // step, and its sink is told before.
  bool suspect = false;
};

// Names one sequence among all that are active: the choices of a request share
// its id.
struct RequestKey {
  std::string id;
  int32_t choice_index = 0;

  auto operator<=>(const RequestKey&) const = default;
};

// All that is to be done with one row of logits. Refers to the request and the
// sequence, which outlive it.
struct SampleSpec {
  const Sampling* sampling = nullptr;
  // Tokens before the one to draw: prompt, emitted and new ones. Their number
  // is the position of the draw.
  std::span<const int32_t> context;
  int64_t prompt_tokens = 0;  // So many of them are the prompt's.
  // Ids that may not be drawn yet: the stop ids, before min_tokens.
  std::span<const int32_t> held_back;
  bool logprobs = false;
  int top_n = 0;
  // Set: nothing is drawn; the log-probability of this id, a prompt token, is
  // asked for.
  std::optional<int32_t> given;

  int64_t position() const { return static_cast<int64_t>(context.size()); }
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_SCHEDULER_REQUEST_H_
