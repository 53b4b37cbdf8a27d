#ifndef PHALANX_WORKER_COLLECTIVE_LOSS_H_
#define PHALANX_WORKER_COLLECTIVE_LOSS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace phalanx {

// Longer causes are cut; a segment has room for no more.
inline constexpr int kMaxCauseBytes = 480;

// How the cause of a rank that made another call than the others begins.
inline constexpr char kDiverged[] = "diverged: ";

// Why a group is over: the rank that is gone or that ended it, and the cause.
struct Loss {
  int rank = 0;
  std::string cause;
};

// The loss as every rank reports it: UNAVAILABLE/GROUP_LOST{epoch,rank,cause}.
absl::Status LossError(uint64_t epoch, const Loss& loss);

// What Abort(reason), called on rank `caller`, means: a GROUP_LOST keeps the
// rank and the cause that it names; any other error is the caller's own, its
// message the cause. At most kMaxCauseBytes of cause. reason is not OK.
Loss LossOf(const absl::Status& reason, int caller, int size);

}  // namespace phalanx

#endif  // PHALANX_WORKER_COLLECTIVE_LOSS_H_
