#ifndef PHALANX_TESTS_WORKER_SCHEDULER_FAKE_MODEL_H_
#define PHALANX_TESTS_WORKER_SCHEDULER_FAKE_MODEL_H_

#include <cstdint>
#include <span>
#include <vector>

#include "worker/scheduler/limits.h"
#include "worker/scheduler/request.h"
#include "worker/scheduler/token_sink.h"

namespace phalanx {

// A prefix of tokens, as a running hash. The fake's GDN state of a sequence.
struct PrefixState {
  uint64_t hash = 0xcbf29ce484222325;
  int64_t length = 0;

  void Add(int32_t token) {
    hash = (hash ^ static_cast<uint64_t>(token + 1)) * 0x100000001b3;
    ++length;
  }
  bool operator==(const PrefixState&) const = default;
};

PrefixState StateOf(std::span<const int32_t> tokens);

// What the sampler makes of the row that ends at this prefix: a pure function
// of the prefix and of what is asked, like the real thing.
Token FakeSample(const PrefixState& prefix, const SampleSpec& spec,
                 int64_t vocab_size);

// What a request would get if it were alone in the world: the tokens after its
// emitted ones, and those of its prompt with their log-probabilities.
std::vector<int32_t> AloneIds(const Request& request,
                              const SchedulerLimits& limits);
std::vector<Token> AlonePrompt(const Request& request,
                               const SchedulerLimits& limits);

}  // namespace phalanx

#endif  // PHALANX_TESTS_WORKER_SCHEDULER_FAKE_MODEL_H_
