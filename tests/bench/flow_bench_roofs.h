#ifndef PHALANX_TESTS_BENCH_FLOW_BENCH_ROOFS_H_
#define PHALANX_TESTS_BENCH_FLOW_BENCH_ROOFS_H_

// The limits of what moves activations and caches, beside those of
// kernel_bench_roofs.h. One thread each.

#include <cstdint>

namespace phalanx {

// Reads and rewrites `bytes` (a multiple of 256) in place, 64-byte aligned.
void UpdateMemory(char* data, int64_t bytes);

// Runs some milliseconds of independent multiply-adds of bytes into i32; how
// many operations (two each) that was. 0 at once where there is none.
double Int8DotOps();

}  // namespace phalanx

#endif  // PHALANX_TESTS_BENCH_FLOW_BENCH_ROOFS_H_
