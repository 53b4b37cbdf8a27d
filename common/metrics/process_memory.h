#ifndef PHALANX_COMMON_METRICS_PROCESS_MEMORY_H_
#define PHALANX_COMMON_METRICS_PROCESS_MEMORY_H_

#include <cstdint>

namespace phalanx {

// What this process holds in memory, as the kernel counts it. Bytes.
struct ProcessMemory {
  int64_t anonymous = 0;  // Its own.
  int64_t shared = 0;     // Shared memory that it has touched.
  int64_t file = 0;       // Pages of mapped files that it has touched.
  int64_t locked = 0;     // Of these, what cannot be swapped out.
};

// All 0 where there is no /proc. Any thread; some 20 us.
ProcessMemory ReadProcessMemory();

}  // namespace phalanx

#endif  // PHALANX_COMMON_METRICS_PROCESS_MEMORY_H_
