#include "common/allocator.h"

#include <malloc.h>

#include <algorithm>
#include <thread>

namespace phalanx {

void LimitAllocatorArenas() {
  mallopt(M_ARENA_MAX,
          static_cast<int>(std::max(1u, std::thread::hardware_concurrency())));
}

}  // namespace phalanx
