#include "worker/scheduler/anchors.h"

#include <algorithm>
#include <limits>

namespace phalanx {

std::vector<int32_t> ThinOut(const std::vector<int32_t>& anchors,
                             int64_t prompt_tokens) {
  std::vector<int32_t> kept;
  int64_t next = std::numeric_limits<int64_t>::max();  // That stays.
  for (size_t i = anchors.size(); i-- > 0;) {
    if (i > 0 && next - anchors[i] < kAnchorDistance) continue;
    kept.push_back(anchors[i]);
    if (anchors[i] != prompt_tokens - 1) next = anchors[i];
  }
  std::reverse(kept.begin(), kept.end());
  return kept;
}

int64_t NextAnchor(const Sequence& sequence, int64_t past,
                   int64_t snapshot_tokens) {
  if (sequence.request.cache.bypass) return std::numeric_limits<int64_t>::max();
  const int64_t multiple = (past / snapshot_tokens + 1) * snapshot_tokens;
  if (past >= sequence.prompt_tokens) return multiple;
  const std::vector<int32_t>& anchors = sequence.request.anchors;
  const auto anchor = std::upper_bound(anchors.begin(), anchors.end(), past);
  return anchor == anchors.end() ? multiple
                                 : std::min<int64_t>(multiple, *anchor);
}

int64_t SharedAnchor(const Sequence& leader, const Sequence& sequence,
                     int64_t snapshot_tokens) {
  if (leader.request.cache.bypass ||
      leader.request.cache.salt != sequence.request.cache.salt)
    return 0;
  const int64_t most = std::min(leader.rows(), sequence.longest_hit());
  if (NextAnchor(leader, leader.past, snapshot_tokens) > most) return 0;
  const auto differ =
      std::mismatch(leader.tokens.begin(), leader.tokens.begin() + most,
                    sequence.tokens.begin());
  const int64_t common = differ.first - leader.tokens.begin();
  int64_t shared = 0;
  for (int64_t anchor = leader.past;;) {
    anchor = NextAnchor(leader, anchor, snapshot_tokens);
    if (anchor > common) return shared;
    shared = anchor;
  }
}

}  // namespace phalanx
