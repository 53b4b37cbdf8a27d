#ifndef PHALANX_TESTS_BENCH_KERNEL_BENCH_ROOFS_H_
#define PHALANX_TESTS_BENCH_KERNEL_BENCH_ROOFS_H_

// Loops that do one thing as fast as the processor can, each with the best
// instructions it has. One thread each.

#include <cstdint>

namespace phalanx {

// Reads `bytes` (a multiple of 64) from 64-byte aligned memory.
void ReadMemory(const char* data, int64_t bytes);

// Runs some 12 ms of independent f32 multiply-adds; how many operations
// (two each) that was.
double FmaFlops();

// The same with the bf16 dot product; 0 at once where there is none.
double Bf16DotFlops();

// The same with whole numbers, the dot product of bytes.
double Int8DotOps();

}  // namespace phalanx

#endif  // PHALANX_TESTS_BENCH_KERNEL_BENCH_ROOFS_H_
