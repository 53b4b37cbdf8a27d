#include "tests/worker/scheduler/fake_model.h"

#include <algorithm>

namespace phalanx {
namespace {

uint64_t Mixed(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

bool Contains(std::span<const int32_t> ids, int32_t id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

}  // namespace

PrefixState StateOf(std::span<const int32_t> tokens) {
  PrefixState state;
  for (const int32_t token : tokens) state.Add(token);
  return state;
}

Token FakeSample(const PrefixState& prefix, const SampleSpec& spec,
                 int64_t vocab_size) {
  Token token;
  if (spec.given.has_value()) {
    token.id = *spec.given;
    PrefixState next = prefix;
    next.Add(token.id);
    token.logprob = -static_cast<float>(Mixed(next.hash) % 1000);
    return token;
  }
  uint64_t random = Mixed(prefix.hash ^ Mixed(spec.sampling->seed));
  do {
    random = Mixed(random + static_cast<uint64_t>(prefix.length));
    token.id = static_cast<int32_t>(random % static_cast<uint64_t>(vocab_size));
  } while (Contains(spec.held_back, token.id));
  return token;
}

std::vector<int32_t> AloneIds(const Request& request,
                              const SchedulerLimits& limits) {
  PrefixState state = StateOf(request.prompt_ids);
  for (const int32_t id : request.emitted_ids) state.Add(id);
  std::vector<int32_t> ids;
  if (!request.emitted_ids.empty() &&
      Contains(request.stop_ids, request.emitted_ids.back()))
    return ids;
  const auto prompt = static_cast<int64_t>(request.prompt_ids.size());
  while (state.length < MaxTotalTokens(request, limits)) {
    SampleSpec spec;
    spec.sampling = &request.sampling;
    if (state.length - prompt < request.min_tokens)
      spec.held_back = request.stop_ids;
    ids.push_back(FakeSample(state, spec, limits.vocab_size).id);
    state.Add(ids.back());
    if (Contains(request.stop_ids, ids.back())) break;
  }
  return ids;
}

std::vector<Token> AlonePrompt(const Request& request,
                               const SchedulerLimits& limits) {
  std::vector<Token> tokens;
  if (!request.prompt_logprobs || !request.emitted_ids.empty()) return tokens;
  PrefixState state;
  for (size_t i = 0; i + 1 < request.prompt_ids.size(); ++i) {
    state.Add(request.prompt_ids[i]);
    SampleSpec spec;
    spec.given = request.prompt_ids[i + 1];
    tokens.push_back(FakeSample(state, spec, limits.vocab_size));
  }
  return tokens;
}

}  // namespace phalanx
