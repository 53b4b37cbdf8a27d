#ifndef PHALANX_KERNELS_ROOF_LOOPS_H_
#define PHALANX_KERNELS_ROOF_LOOPS_H_

// Loops that each do one thing as fast as a core can, with the best
// instructions it has: what kernels are held against. No backend's contract;
// each gives its own (kernels/cpu/cpu_roof_loops.h). Plain C++.

#include <cstdint>
#include <string>

namespace phalanx {

// Any thread, several at once; each keeps the core that it runs on busy.
struct RoofLoops {
  // "AMD EPYC (AuthenticAMD, family 25, model 17)".
  std::string processor;

  // Reads `bytes` (a multiple of 64) from 64-byte aligned memory.
  void (*read)(const char* data, int64_t bytes) = nullptr;

  // Runs some 12 ms of independent f32 multiply-adds; how many operations (two
  // each) that was.
  double (*f32_fma)() = nullptr;
  // The same with dot products of bf16, and of u8 by s8. Null where the core
  // has no instruction for it.
  double (*bf16_dot)() = nullptr;
  double (*int8_dot)() = nullptr;
};

}  // namespace phalanx

#endif  // PHALANX_KERNELS_ROOF_LOOPS_H_
