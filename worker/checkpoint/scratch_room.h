#ifndef PHALANX_WORKER_CHECKPOINT_SCRATCH_ROOM_H_
#define PHALANX_WORKER_CHECKPOINT_SCRATCH_ROOM_H_

#include <cstdint>
#include <vector>

namespace phalanx {

// Room for `count` elements, of any contents. Never grown with its old contents
// at hand, nor shrunk: that would take memory, and zeros, that nobody needs.
inline uint16_t* RoomIn(std::vector<uint16_t>* scratch, int64_t count) {
  if (std::ssize(*scratch) < count) {
    std::vector<uint16_t>().swap(*scratch);
    scratch->resize(static_cast<size_t>(count));
  }
  return scratch->data();
}

}  // namespace phalanx

#endif  // PHALANX_WORKER_CHECKPOINT_SCRATCH_ROOM_H_
