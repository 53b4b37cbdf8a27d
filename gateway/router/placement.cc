#include "gateway/router/placement.h"

#include <algorithm>

#include "common/check.h"

namespace phalanx {
namespace {

// FNV-1a, a value at a time. Source: RFC draft-eastlake-fnv-17, section 2.
constexpr uint64_t kBasis = 0xcbf29ce484222325u;
constexpr uint64_t kPrime = 0x100000001b3u;

uint64_t Hash(absl::string_view text) {
  uint64_t hash = kBasis;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * kPrime;
  return hash;
}

// Every bit of the input changes half of the output's: SplitMix64's end.
// Source: Steele, Lea, Flood 2014, doi:10.1145/2660193.2660195.
uint64_t Mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// a is no fuller than b with `margin` streams more. Exact: no division.
bool IsWithin(const Candidate& a, const Candidate& b, int64_t margin) {
  return a.streams * b.max_running <=
         b.streams * a.max_running + margin * b.max_running;
}

}  // namespace

PrefixKey PrefixKeyOf(absl::string_view cache_salt,
                      std::span<const int32_t> prompt_ids) {
  PrefixKey key = {.hash = Hash(cache_salt), .cached = false};
  for (const int64_t tokens : kPrefixTokens) {
    if (static_cast<int64_t>(prompt_ids.size()) < tokens) continue;
    key.cached = true;
    for (const int32_t id : prompt_ids.first(tokens))
      key.hash = (key.hash ^ static_cast<uint32_t>(id)) * kPrime;
    break;
  }
  key.hash = Mix(key.hash);
  return key;
}

int64_t ChooseGroup(std::span<const Candidate> candidates,
                    const PrefixKey& prefix) {
  CHECK(!candidates.empty());
  const Candidate& least = *std::min_element(
      candidates.begin(), candidates.end(),
      [](const Candidate& a, const Candidate& b) {
        return a.streams * b.max_running < b.streams * a.max_running;
      });
  int64_t best = -1;
  uint64_t best_score = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& one = candidates[i];
    const int64_t margin =
        prefix.cached ? std::max(kMarginStreams, one.max_running / kMarginShare)
                      : 0;
    if (!IsWithin(one, least, margin)) continue;
    const uint64_t score = Mix(prefix.hash ^ Hash(one.name));
    if (best >= 0 && score <= best_score) continue;
    best = static_cast<int64_t>(i);
    best_score = score;
  }
  return best;
}

}  // namespace phalanx
