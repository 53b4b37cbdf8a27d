#ifndef PHALANX_WORKER_COLLECTIVE_CALL_H_
#define PHALANX_WORKER_COLLECTIVE_CALL_H_

#include <cstdint>
#include <string>

#include "kernels/tensor.h"

namespace phalanx {

// One call of a Collective, packed into a word that ranks show each other: all
// must show the same one at the same step. Ranks that diverge (a bug) are
// stopped by it before they add unlike things.
using CallTag = uint64_t;

enum class CallKind : uint8_t {
  kAllReduceToF32 = 1,
  kAllReduceToBf16,
  kAllGather,
  kBroadcast,
  kBarrier,
};

constexpr CallTag MakeCallTag(CallKind kind, int64_t count) {
  return (static_cast<uint64_t>(kind) << 56) |
         (static_cast<uint64_t>(count) & 0xff'ffff'ffff'ffffu);
}

// "all_reduce_bf16(2048)", for messages. Any value.
std::string CallName(CallTag tag);

// CHECKs the shapes of collective.h; `size` is the group's. Returns the tag.
CallTag CheckedAllReduce(const Tensor& partial, const Tensor& out);
CallTag CheckedAllGather(const Tensor& mine, const Tensor& all, int size);

}  // namespace phalanx

#endif  // PHALANX_WORKER_COLLECTIVE_CALL_H_
