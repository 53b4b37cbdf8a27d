#ifndef PHALANX_WORKER_SCHEDULER_ANCHORS_H_
#define PHALANX_WORKER_SCHEDULER_ANCHORS_H_

#include <cstdint>
#include <vector>

#include "worker/scheduler/sequence.h"

namespace phalanx {

// A state costs as much memory as the KV of some thousand tokens: anchors are
// at least so far apart. It is also how much a request must save to wait for a
// prefix.
inline constexpr int64_t kAnchorDistance = 128;
inline constexpr int64_t kWorthWaiting = 64;

// `anchors`, ascending, without those that are closer than kAnchorDistance to
// the next one that stays. The first and the last stay. One at prompt_tokens -
// 1 is for the other choices of the same request and leaves its neighbour
// alone.
std::vector<int32_t> ThinOut(const std::vector<int32_t>& anchors,
                             int64_t prompt_tokens);

// The first position behind `past` where a chunk of the sequence ends and its
// state is kept: an anchor, or a multiple of snapshot_tokens. One that keeps
// nothing has none: the largest number.
int64_t NextAnchor(const Sequence& sequence, int64_t past,
                   int64_t snapshot_tokens);

// The farthest of the anchors to come of `leader`, which computes a prompt,
// where `sequence` could begin instead of computing as much itself; 0: none.
int64_t SharedAnchor(const Sequence& leader, const Sequence& sequence,
                     int64_t snapshot_tokens);

}  // namespace phalanx

#endif  // PHALANX_WORKER_SCHEDULER_ANCHORS_H_
