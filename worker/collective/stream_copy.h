#ifndef PHALANX_WORKER_COLLECTIVE_STREAM_COPY_H_
#define PHALANX_WORKER_COLLECTIVE_STREAM_COPY_H_

#include <cstdint>

namespace phalanx {

// memcpy whose stores go past the caches to memory. What follows in program
// order is seen by others only after all of it, so a flag may be stored next.
//   to  a multiple of 16; does not overlap `from`
// Any thread.
void StreamCopy(void* to, const void* from, int64_t bytes);

}  // namespace phalanx

#endif  // PHALANX_WORKER_COLLECTIVE_STREAM_COPY_H_
