#ifndef PHALANX_WORKER_COLLECTIVE_COLLECTIVE_H_
#define PHALANX_WORKER_COLLECTIVE_COLLECTIVE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "kernels/tensor.h"

namespace phalanx {

// Of one broadcast, in every transport.
inline constexpr int64_t kMaxBroadcastBytes = int64_t{16} << 20;

// What the ranks of one group do together. Every rank makes the same calls in
// the same order with the same shapes, from its engine thread.
//
// Errors are sticky: when a peer is lost or Abort is called, the running call
// and every later one return at once, their results meaningless, and status()
// says why (UNAVAILABLE/GROUP_LOST{rank,cause}). A step looks at it once, at
// its end; so nothing computed after a loss is ever used, and nobody hangs.
//
// A group is never repaired: a new epoch makes a new object.
class Collective {
 public:
  virtual ~Collective() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // out = the sum of every rank's partial, rounded once to out's type. The sum
  // is the upper part of the tree of design.md section 3, rule 1: neighbours in
  // pairs, ((0+1)+(2+3))+..., in f32, so its bits are equal on every rank and,
  // with the ranks' own subtrees, at every size.
  //   partial [T, H] f32, contiguous; out [T, H] bf16 or f32, contiguous
  virtual void AllReduceSum(Tensor partial, Tensor out) = 0;

  // all[r] = rank r's mine.   mine [..]; all [N, ..], both contiguous
  virtual void AllGather(Tensor mine, Tensor all) = 0;

  // Rank 0's bytes, of any length up to max_broadcast_bytes(), become
  // everyone's. Followers may wait here for long (an idle group); waiting costs
  // no CPU after some 50 us.
  virtual absl::Status Broadcast(std::string& bytes) = 0;
  virtual int64_t max_broadcast_bytes() const = 0;

  // Returns when every rank has called it.
  virtual absl::Status Barrier() = 0;

  // Seconds from the first rank's arrival to the last one's in the last call
  // that waited for all; negative where the transport does not know.
  virtual double last_skew_seconds() const { return -1; }

  // The rank that the running call waits for just now; -1 if it waits for
  // nobody, or the transport does not know. Any thread.
  virtual int awaited_rank() const { return -1; }

  // Ends the group for all ranks. Any thread; the first reason counts.
  virtual void Abort(const absl::Status& reason) = 0;

  // OK, or why the group is over. Any thread.
  virtual absl::Status status() const = 0;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_COLLECTIVE_COLLECTIVE_H_
