#ifndef PHALANX_GATEWAY_ROUTER_PLACEMENT_H_
#define PHALANX_GATEWAY_ROUTER_PLACEMENT_H_

// Which of several groups takes a stream: arithmetic alone, no group is asked.

#include <cstdint>
#include <span>

#include "absl/strings/string_view.h"

namespace phalanx {

// The tokens that a prompt is known by: so many of its first, the longest that
// it has. A shorter prompt is computed again sooner than it is waited for.
inline constexpr int64_t kPrefixTokens[] = {1024, 256};

// A group that is loved for its caches may be this much fuller than the least
// loaded one: so many streams, or this share of its places if that is more.
inline constexpr int64_t kMarginStreams = 2;
inline constexpr int64_t kMarginShare = 8;  // An eighth.

// A group that may take a stream.
struct Candidate {
  absl::string_view name;   // Lent.
  int64_t streams = 0;      // That it runs or holds waiting, of all gateways.
  int64_t max_running = 1;  // At least 1.
};

// What the prompts of one conversation share: its salt and its first tokens.
// The same in every gateway.
struct PrefixKey {
  uint64_t hash = 0;
  bool cached = false;  // The prompt is long enough to be worth a cache.
};
PrefixKey PrefixKeyOf(absl::string_view cache_salt,
                      std::span<const int32_t> prompt_ids);

// The candidate, by index, that takes a stream; at least one. Of those that are
// loaded least, relative to their places, or within the margin of it for a
// cached prefix: the one that rendezvous hashing prefers. Source: Thaler,
// Ravishankar 1998, doi:10.1109/90.663936.
int64_t ChooseGroup(std::span<const Candidate> candidates,
                    const PrefixKey& prefix);

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_ROUTER_PLACEMENT_H_
