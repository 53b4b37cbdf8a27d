#ifndef PHALANX_WORKER_SCHEDULER_REQUEST_H_
#define PHALANX_WORKER_SCHEDULER_REQUEST_H_

// What was asked of one sequence, in plain structs: worker.proto's
// WorkerGenerateRequest without protobuf.

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace phalanx {

// Bounds on the fields of a Request; ValidateRequest refuses what is outside.
inline constexpr int64_t kMaxRequestIdBytes = 256;
inline constexpr int64_t kMaxStopIds = 256;
inline constexpr int kMaxTopLogprobs = 20;
// Of inference.proto's Priority; 0, unspecified, counts as the normal one.
inline constexpr int kHighestPriority = 5;
inline constexpr int kNormalPriority = 3;

// How a token is drawn. Filters apply in the order temperature, top_k, top_p,
// min_p. The draw is a pure function of (seed, position, choice_index).
struct Sampling {
  float temperature = 0;  // >= 0; 0: the largest logit, nothing is drawn.
  float top_p = 1;        // In (0, 1]; 1: off.
  int32_t top_k = 0;      // 0: off.
  float min_p = 0;        // In [0, 1]; 0: off.
  uint64_t seed = 0;
  int32_t choice_index = 0;  // Which of n choices of one request.
};

struct Request {
  std::string id;
  uint64_t epoch = 0;  // The one that the sender believes in.
  std::vector<int32_t> prompt_ids;
  // Sampled in an earlier epoch: replayed after the prompt, never drawn again
  // and never pushed again.
  std::vector<int32_t> emitted_ids;
  Sampling sampling;
  int64_t max_tokens = 0;         // Of emitted_ids and new ones together.
  std::vector<int32_t> stop_ids;  // Any of them ends the sequence.
  bool logprobs = false;          // Log-probability of each token.
  int top_n = 0;                  // Most likely ones listed with each token.
  int priority = 0;               // 0..kHighestPriority.
};

// Names one sequence among all that are active: the choices of a request share
// its id.
struct RequestKey {
  std::string id;
  int32_t choice_index = 0;

  auto operator<=>(const RequestKey&) const = default;
};

// All that the sampler needs to know for one token.
struct SampleSpec {
  Sampling sampling;
  int64_t position = 0;  // Tokens before it: prompt, emitted and new ones.
  bool logprobs = false;
  int top_n = 0;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_SCHEDULER_REQUEST_H_
