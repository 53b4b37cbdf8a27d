#ifndef PHALANX_TESTS_BENCH_FLOW_BENCH_UPDATE_H_
#define PHALANX_TESTS_BENCH_FLOW_BENCH_UPDATE_H_

#include <cstdint>

namespace phalanx {

// Reads and rewrites `bytes` (a multiple of 256) in place, 64-byte aligned: the
// limit of what moves a state or a cache, beside those of roof_loops.h. One
// thread.
void UpdateMemory(char* data, int64_t bytes);

}  // namespace phalanx

#endif  // PHALANX_TESTS_BENCH_FLOW_BENCH_UPDATE_H_
