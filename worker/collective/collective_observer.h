#ifndef PHALANX_WORKER_COLLECTIVE_COLLECTIVE_OBSERVER_H_
#define PHALANX_WORKER_COLLECTIVE_COLLECTIVE_OBSERVER_H_

#include <cstdint>

namespace phalanx {

enum class CollectiveOp : uint8_t {
  kAllReduce,
  kAllGather,
  kBroadcast,
  kBarrier,
};
inline constexpr int kCollectiveOps = 4;

enum class CollectiveFailure : uint8_t {
  kTimeout,
  kPeerLost,
  kMismatch,
  kLibrary,
};
inline constexpr int kCollectiveFailures = 4;

// Sees the calls of one rank's collective, on its engine thread: for metrics.
class CollectiveObserver {
 public:
  virtual ~CollectiveObserver() = default;

  // A call that was whole. `bytes`: what this rank gave to it, or, in a
  // broadcast, what it got.
  virtual void OnCall(CollectiveOp op, double seconds, int64_t bytes) = 0;
  // After OnCall, where the call waited for all and the transport knows: how
  // far the ranks' arrivals lay apart.
  virtual void OnSkew(double seconds) = 0;
  // The call in which this rank learnt that the group is over; one a group.
  virtual void OnFailure(CollectiveOp op, CollectiveFailure reason) = 0;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_COLLECTIVE_COLLECTIVE_OBSERVER_H_
