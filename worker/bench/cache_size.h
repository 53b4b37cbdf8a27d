#ifndef PHALANX_WORKER_BENCH_CACHE_SIZE_H_
#define PHALANX_WORKER_BENCH_CACHE_SIZE_H_

#include <cstdint>
#include <string>

namespace phalanx {

// Bytes of the largest cache of processor 0, as sysfs lists them below `root`
// ("/sys/devices/system/cpu/cpu0/cache"); 0 where it lists none.
int64_t LargestCacheBytes(const std::string& root);

}  // namespace phalanx

#endif  // PHALANX_WORKER_BENCH_CACHE_SIZE_H_
